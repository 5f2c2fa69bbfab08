-- Answer a batch of registrations. `fresh` is NULL where the slot is ahead of the store's clock: nothing was done.
CREATE FUNCTION {schema}.register_v1(
    p_job text[], p_slot bigint[], p_fingerprint text[], p_zone_digests text[], p_lock_ms bigint
) RETURNS TABLE (
    item bigint, fresh boolean, now_ms bigint, top bigint, since bigint, old_fingerprint text, old_zone_digests text,
    run_slot bigint, run_attempt bigint, run_remaining_ms bigint, run_instance_id text
) LANGUAGE plpgsql AS $function$
DECLARE
    q record;
    j {schema}.jobs%ROWTYPE;
    known boolean;
    locked boolean;
BEGIN
    PERFORM {schema}.begin_v1(p_lock_ms);
    FOR q IN
        SELECT * FROM unnest(p_job, p_slot, p_fingerprint, p_zone_digests)
            WITH ORDINALITY AS u(job, slot, fingerprint, zone_digests, item)
            ORDER BY u.job COLLATE "C", u.slot, u.item
    LOOP
        item := q.item;
        locked := false;
        <<judge>> LOOP
            IF locked THEN
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = q.job FOR NO KEY UPDATE;
            ELSE
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = q.job;
            END IF;
            known := FOUND;
            now_ms := {schema}.now_v1();
            fresh := false; top := j.high; since := j.since_ms;
            old_fingerprint := j.fingerprint; old_zone_digests := j.zone_digests;
            IF q.slot > now_ms THEN
                fresh := NULL;
                EXIT judge;
            END IF;
            IF NOT known THEN
                INSERT INTO {schema}.jobs (job, high, fingerprint, zone_digests)
                    VALUES (q.job, q.slot, q.fingerprint, q.zone_digests) ON CONFLICT DO NOTHING;
                CONTINUE judge WHEN NOT FOUND;
                fresh := true; top := q.slot;
                EXIT judge;
            END IF;
            -- Nothing to write, nothing to lock: most registrations say what is known.
            EXIT judge WHEN q.fingerprint IS NULL
                OR (j.fingerprint = q.fingerprint AND j.zone_digests IS NOT DISTINCT FROM q.zone_digests);
            IF NOT locked THEN
                locked := true;
                CONTINUE judge;
            END IF;
            IF j.fingerprint <> q.fingerprint THEN
                since := now_ms;
            END IF;
            UPDATE {schema}.jobs t SET fingerprint = q.fingerprint, zone_digests = q.zone_digests, since_ms = since
                WHERE t.job = q.job;
            EXIT judge;
        END LOOP;
        run_slot := j.live_slot; run_attempt := j.live_attempt; run_instance_id := j.live_instance_id;
        run_remaining_ms := CASE
            WHEN j.live_slot IS NULL THEN NULL
            WHEN j.live_token IS NULL THEN 0
            ELSE greatest(0, j.live_lease_until_ms - now_ms) END;
        RETURN NEXT;
    END LOOP;
END
$function$;
