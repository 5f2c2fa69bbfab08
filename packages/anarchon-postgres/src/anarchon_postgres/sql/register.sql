-- Answer a batch of registrations, which comes in the order of (job, slot). `fresh` is NULL where the slot is ahead of the store's clock: nothing was done.
CREATE FUNCTION {schema}.register_v1(
    p_job text[], p_slot bigint[], p_fingerprint text[], p_zone_digests text[], p_lock_ms bigint
) RETURNS TABLE (
    item bigint, fresh boolean, now_ms bigint, top bigint, since bigint, old_fingerprint text, old_zone_digests text,
    run_slot bigint, run_attempt bigint, run_remaining_ms bigint, run_instance_id text
) LANGUAGE plpgsql AS $function$
DECLARE
    j {schema}.jobs%ROWTYPE;
    known boolean;
    locked boolean;
BEGIN
    {begin}
    FOR i IN 1 .. cardinality(p_job) LOOP
        item := i;
        locked := false;
        <<judge>> LOOP
            IF locked THEN
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = p_job[i] FOR NO KEY UPDATE;
            ELSE
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = p_job[i];
            END IF;
            known := FOUND;
            now_ms := {now};
            fresh := false; top := j.high; since := j.since_ms;
            old_fingerprint := j.fingerprint; old_zone_digests := j.zone_digests;
            IF p_slot[i] > now_ms THEN
                fresh := NULL;
                EXIT judge;
            END IF;
            IF NOT known THEN
                INSERT INTO {schema}.jobs (job, high, fingerprint, zone_digests)
                    VALUES (p_job[i], p_slot[i], p_fingerprint[i], p_zone_digests[i]) ON CONFLICT DO NOTHING;
                CONTINUE judge WHEN NOT FOUND;
                fresh := true; top := p_slot[i];
                EXIT judge;
            END IF;
            -- Nothing to write, nothing to lock: most registrations say what is known.
            EXIT judge WHEN p_fingerprint[i] IS NULL
                OR (j.fingerprint = p_fingerprint[i] AND j.zone_digests IS NOT DISTINCT FROM p_zone_digests[i]);
            IF NOT locked THEN
                locked := true;
                CONTINUE judge;
            END IF;
            IF j.fingerprint <> p_fingerprint[i] THEN
                since := now_ms;
            END IF;
            UPDATE {schema}.jobs t SET fingerprint = p_fingerprint[i], zone_digests = p_zone_digests[i], since_ms = since
                WHERE t.job = p_job[i];
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
