-- Answer a batch of renewals: a lease is pushed forward while the token is the live one.
CREATE FUNCTION {schema}.renew_v1(
    p_job text[], p_slot bigint[], p_attempt bigint[], p_token text[], p_lease_ms bigint[], p_started_ago_ms bigint[],
    p_lock_ms bigint
) RETURNS TABLE (item bigint, held boolean, now_ms bigint, top bigint) LANGUAGE plpgsql AS $function$
DECLARE
    q record;
    j {schema}.jobs%ROWTYPE;
    locked boolean;
BEGIN
    PERFORM {schema}.begin_v1(p_lock_ms);
    FOR q IN
        SELECT * FROM unnest(p_job, p_slot, p_attempt, p_token, p_lease_ms, p_started_ago_ms)
            WITH ORDINALITY AS u(job, slot, attempt, token, lease_ms, started_ago_ms, item)
            ORDER BY u.job COLLATE "C", u.slot, u.item
    LOOP
        item := q.item;
        FOREACH locked IN ARRAY ARRAY[false, true] LOOP
            IF locked THEN
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = q.job FOR NO KEY UPDATE;
            ELSE
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = q.job;
            END IF;
            now_ms := {schema}.now_v1();
            top := j.high;
            held := coalesce(j.live_slot = q.slot AND j.live_attempt = q.attempt AND j.live_token = q.token, false);
            EXIT WHEN NOT held;
        END LOOP;
        IF held THEN
            UPDATE {schema}.jobs t SET live_lease_until_ms = now_ms + q.lease_ms WHERE t.job = q.job;
            IF q.started_ago_ms IS NOT NULL THEN
                UPDATE {schema}.runs r SET started_ms = now_ms - q.started_ago_ms
                    WHERE r.job = q.job AND r.slot = q.slot AND r.attempt = q.attempt AND r.started_ms IS NULL;
            END IF;
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
DECLARE
    q record;
    j {schema}.jobs%ROWTYPE;
    locked boolean;
BEGIN
    PERFORM {schema}.begin_v1(p_lock_ms);
    FOR q IN
        SELECT * FROM unnest(p_job, p_slot, p_attempt, p_token, p_status, p_reason, p_error, p_started_ago_ms)
            WITH ORDINALITY AS u(job, slot, attempt, token, status, reason, error, started_ago_ms, item)
            ORDER BY u.job COLLATE "C", u.slot, u.item
    LOOP
        item := q.item;
        FOREACH locked IN ARRAY ARRAY[false, true] LOOP
            IF locked THEN
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = q.job FOR NO KEY UPDATE;
            ELSE
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = q.job;
            END IF;
            now_ms := {schema}.now_v1();
            top := j.high;
            accepted := coalesce(j.live_slot = q.slot AND j.live_attempt = q.attempt AND j.live_token = q.token, false);
            EXIT WHEN NOT accepted;
        END LOOP;
        IF accepted THEN
            UPDATE {schema}.jobs t SET
                live_slot = NULL, live_attempt = NULL, live_token = NULL, live_instance_id = NULL,
                live_lease_until_ms = NULL, live_crashes = NULL, live_previous_high = NULL
                WHERE t.job = q.job;
            PERFORM {schema}.close_v1(
                q.job, q.slot, q.attempt, q.status, q.reason, q.error, now_ms - q.started_ago_ms, now_ms);
            PERFORM pg_notify('{channel}', q.job);
        ELSE
            accepted := EXISTS (
                SELECT FROM {schema}.runs r
                WHERE r.job = q.job AND r.slot = q.slot AND r.attempt = q.attempt AND r.token = q.token
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
DECLARE
    q record;
    j {schema}.jobs%ROWTYPE;
    locked boolean;
BEGIN
    PERFORM {schema}.begin_v1(p_lock_ms);
    FOR q IN
        SELECT * FROM unnest(p_job, p_slot, p_attempt, p_token, p_takeover, p_started_ago_ms)
            WITH ORDINALITY AS u(job, slot, attempt, token, takeover, started_ago_ms, item)
            ORDER BY u.job COLLATE "C", u.slot, u.item
    LOOP
        item := q.item;
        FOREACH locked IN ARRAY ARRAY[false, true] LOOP
            IF locked THEN
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = q.job FOR NO KEY UPDATE;
            ELSE
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = q.job;
            END IF;
            now_ms := {schema}.now_v1();
            top := j.high;
            accepted := coalesce(j.live_slot = q.slot AND j.live_attempt = q.attempt AND j.live_token = q.token, false);
            EXIT WHEN NOT accepted;
        END LOOP;
        IF accepted AND q.takeover THEN
            UPDATE {schema}.jobs t SET live_token = NULL, live_lease_until_ms = now_ms WHERE t.job = q.job;
        ELSIF accepted THEN
            UPDATE {schema}.jobs t SET
                live_slot = NULL, live_attempt = NULL, live_token = NULL, live_instance_id = NULL,
                live_lease_until_ms = NULL, live_crashes = NULL, live_previous_high = NULL
                WHERE t.job = q.job;
        END IF;
        IF accepted THEN
            PERFORM {schema}.close_v1(
                q.job, q.slot, q.attempt, 'interrupted', 'handed_over', NULL, now_ms - q.started_ago_ms, now_ms);
            PERFORM pg_notify('{channel}', q.job);
        ELSE
            accepted := EXISTS (
                SELECT FROM {schema}.runs r
                WHERE r.job = q.job AND r.slot = q.slot AND r.attempt = q.attempt AND r.token = q.token
                    AND r.status = 'interrupted' AND r.reason = 'handed_over');
        END IF;
        RETURN NEXT;
    END LOOP;
END
$function$;
