-- These take the one way that is common: an update that finds the row only while the token is the live one. Where it
-- does not, nothing was locked, and the answer is looked up. Batches come in the order of (job, slot).

-- Answer a batch of renewals: a lease is pushed forward while the token is the live one.
CREATE FUNCTION {schema}.renew_v1(
    p_job text[], p_slot bigint[], p_attempt bigint[], p_token text[], p_lease_ms bigint[], p_started_ago_ms bigint[],
    p_lock_ms bigint
) RETURNS TABLE (item bigint, held boolean, now_ms bigint, top bigint) LANGUAGE plpgsql AS $function$
BEGIN
    {begin}
    FOR i IN 1 .. cardinality(p_job) LOOP
        item := i;
        -- An instant before a wait for the row only makes the lease shorter, and its runner counts from earlier still.
        UPDATE {schema}.jobs t SET live_lease_until_ms = {now} + p_lease_ms[i]
            WHERE t.job = p_job[i] AND t.live_slot = p_slot[i] AND t.live_attempt = p_attempt[i]
                AND t.live_token = p_token[i]
            RETURNING t.high INTO top;
        held := FOUND;
        now_ms := {now};
        IF NOT held THEN
            SELECT t.high INTO top FROM {schema}.jobs t WHERE t.job = p_job[i];
        ELSIF p_started_ago_ms[i] IS NOT NULL THEN
            UPDATE {schema}.runs r SET started_ms = now_ms - p_started_ago_ms[i]
                WHERE r.job = p_job[i] AND r.slot = p_slot[i] AND r.attempt = p_attempt[i] AND r.started_ms IS NULL;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$function$;

-- Answer a batch of finishes: accepted once for the live token, and again when repeated.
CREATE FUNCTION {schema}.finish_v1(
    p_job text[], p_slot bigint[], p_attempt bigint[], p_token text[], p_status text[], p_reason text[], p_error text[],
    p_started_ago_ms bigint[], p_lock_ms bigint
) RETURNS TABLE (item bigint, accepted boolean, now_ms bigint, top bigint) LANGUAGE plpgsql AS $function$
BEGIN
    {begin}
    FOR i IN 1 .. cardinality(p_job) LOOP
        item := i;
        UPDATE {schema}.jobs t SET
                live_slot = NULL, live_attempt = NULL, live_token = NULL, live_instance_id = NULL,
                live_lease_until_ms = NULL, live_crashes = NULL, live_previous_high = NULL
            WHERE t.job = p_job[i] AND t.live_slot = p_slot[i] AND t.live_attempt = p_attempt[i]
                AND t.live_token = p_token[i]
            RETURNING t.high INTO top;
        accepted := FOUND;
        now_ms := {now};
        IF accepted THEN
            UPDATE {schema}.runs r SET
                status = p_status[i], reason = p_reason[i], error = p_error[i], finished_ms = now_ms,
                started_ms = coalesce(r.started_ms, now_ms - p_started_ago_ms[i])
                WHERE r.job = p_job[i] AND r.slot = p_slot[i] AND r.attempt = p_attempt[i] AND r.status = 'running';
            PERFORM pg_notify('{channel}', p_job[i]);
        ELSE
            SELECT t.high INTO top FROM {schema}.jobs t WHERE t.job = p_job[i];
            accepted := EXISTS (
                SELECT FROM {schema}.runs r
                WHERE r.job = p_job[i] AND r.slot = p_slot[i] AND r.attempt = p_attempt[i] AND r.token = p_token[i]
                    AND r.status IN ('success', 'failed'));
        END IF;
        RETURN NEXT;
    END LOOP;
END
$function$;

-- Answer a batch of releases: the token is taken away and the lease ends now; with takeover off the run is closed.
CREATE FUNCTION {schema}.release_v1(
    p_job text[], p_slot bigint[], p_attempt bigint[], p_token text[], p_takeover boolean[], p_started_ago_ms bigint[],
    p_lock_ms bigint
) RETURNS TABLE (item bigint, accepted boolean, now_ms bigint, top bigint) LANGUAGE plpgsql AS $function$
BEGIN
    {begin}
    FOR i IN 1 .. cardinality(p_job) LOOP
        item := i;
        UPDATE {schema}.jobs t SET live_token = NULL, live_lease_until_ms = {now}
            WHERE t.job = p_job[i] AND t.live_slot = p_slot[i] AND t.live_attempt = p_attempt[i]
                AND t.live_token = p_token[i]
            RETURNING t.high INTO top;
        accepted := FOUND;
        now_ms := {now};
        IF accepted THEN
            IF NOT p_takeover[i] THEN
                UPDATE {schema}.jobs t SET
                    live_slot = NULL, live_attempt = NULL, live_token = NULL, live_instance_id = NULL,
                live_lease_until_ms = NULL, live_crashes = NULL, live_previous_high = NULL
                    WHERE t.job = p_job[i];
            END IF;
            UPDATE {schema}.runs r SET
                status = 'interrupted', reason = 'handed_over', finished_ms = now_ms,
                started_ms = coalesce(r.started_ms, now_ms - p_started_ago_ms[i])
                WHERE r.job = p_job[i] AND r.slot = p_slot[i] AND r.attempt = p_attempt[i] AND r.status = 'running';
            PERFORM pg_notify('{channel}', p_job[i]);
        ELSE
            SELECT t.high INTO top FROM {schema}.jobs t WHERE t.job = p_job[i];
            accepted := EXISTS (
                SELECT FROM {schema}.runs r
                WHERE r.job = p_job[i] AND r.slot = p_slot[i] AND r.attempt = p_attempt[i] AND r.token = p_token[i]
                    AND r.status = 'interrupted' AND r.reason = 'handed_over');
        END IF;
        RETURN NEXT;
    END LOOP;
END
$function$;
