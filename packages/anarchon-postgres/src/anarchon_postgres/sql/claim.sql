-- Answer a batch of claims by the table of specs/backend.md, one row an item.
-- Items are taken in the order of (job, slot), so that two batches never wait for each other in a circle.
CREATE FUNCTION {schema}.claim_v1(
    p_job text[], p_slot bigint[], p_attempt bigint[], p_token text[], p_instance_id text[], p_lease_ms bigint[],
    p_not_after_ms bigint[], p_wait boolean[], p_max_lateness_ms bigint[], p_max_crashes bigint[],
    p_takeover boolean[], p_fingerprint text[], p_zone_digests text[],
    p_keep bigint, p_age_ms bigint, p_lock_ms bigint
) RETURNS TABLE (
    item bigint, verdict text, why text, now_ms bigint, top bigint, prior bigint, since bigint, recorded boolean,
    run_slot bigint, run_attempt bigint, run_remaining_ms bigint, run_instance_id text
) LANGUAGE plpgsql AS $function$
DECLARE
    q record;
    j {schema}.jobs%ROWTYPE;
    known boolean;
    locked boolean;
    released boolean;
    closes text;        -- why the record of the older attempt is closed
    opens text;         -- the status of the record that is added
    hints boolean;
    ended_slot bigint;
    ended_attempt bigint;
BEGIN
    PERFORM {schema}.begin_v1(p_lock_ms);
    FOR q IN
        SELECT * FROM unnest(
            p_job, p_slot, p_attempt, p_token, p_instance_id, p_lease_ms, p_not_after_ms, p_wait, p_max_lateness_ms,
            p_max_crashes, p_takeover, p_fingerprint, p_zone_digests
        ) WITH ORDINALITY AS u(
            job, slot, attempt, token, instance_id, lease_ms, not_after_ms, wait, max_lateness_ms,
            max_crashes, takeover, fingerprint, zone_digests, item
        ) ORDER BY u.job COLLATE "C", u.slot, u.item
    LOOP
        item := q.item;
        locked := false;
        <<judge>> LOOP
            -- The first look takes no lock: most claims lose, and losers need not queue behind the winner.
            IF locked THEN
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = q.job FOR NO KEY UPDATE;
            ELSE
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = q.job;
            END IF;
            known := FOUND;
            -- The clock is read after the lock was waited for: a lease may have ended meanwhile.
            now_ms := {schema}.now_v1();
            top := j.high; since := j.since_ms; why := NULL; prior := NULL; recorded := false;
            run_slot := NULL; run_attempt := NULL; run_remaining_ms := NULL; run_instance_id := NULL;
            released := j.live_slot IS NOT NULL AND j.live_token IS NULL;
            closes := NULL; opens := NULL; hints := false;
            ended_slot := j.live_slot; ended_attempt := j.live_attempt;

            IF j.live_slot = q.slot AND j.live_attempt = q.attempt AND j.live_token = q.token THEN
                verdict := 'won'; prior := j.live_previous_high;
                j.live_lease_until_ms := now_ms + q.lease_ms;
            ELSIF now_ms > q.not_after_ms THEN
                verdict := 'late'; why := 'expired';
                EXIT judge;
            ELSIF j.live_slot = q.slot THEN
                IF q.attempt <> j.live_attempt + 1 OR NOT (released OR j.live_lease_until_ms <= now_ms) THEN
                    verdict := 'running';
                    EXIT judge;
                END IF;
                hints := true;
                j.live_crashes := j.live_crashes + (NOT released)::int;
                IF NOT q.takeover OR (NOT released AND j.live_crashes >= q.max_crashes) THEN
                    verdict := 'done'; why := 'given_up';
                    closes := CASE WHEN q.takeover THEN 'max_crashes' ELSE 'takeover_off' END;
                    j.live_slot := NULL;
                ELSE
                    verdict := 'won'; prior := j.live_previous_high;
                    closes := 'lease_expired'; opens := 'running';
                END IF;
            ELSIF q.slot < j.high THEN
                verdict := 'late'; why := 'superseded';
                EXIT judge;
            ELSIF q.slot = j.high THEN
                IF j.skip_slot = q.slot AND j.skip_token = q.token THEN
                    verdict := 'overlap'; recorded := true; prior := j.skip_previous_high;
                ELSE
                    verdict := 'done'; why := 'ended';
                END IF;
                EXIT judge;
            ELSIF q.attempt > 1 THEN
                verdict := 'none';
                EXIT judge;
            ELSIF q.slot > now_ms + 500 THEN
                verdict := 'early';
                EXIT judge;
            ELSIF q.slot < now_ms - q.max_lateness_ms THEN
                verdict := 'late'; why := 'too_old';
                EXIT judge;
            ELSIF j.live_slot IS NOT NULL AND q.wait THEN
                verdict := 'overlap';
                EXIT judge;
            ELSIF j.live_slot IS NOT NULL AND NOT released AND j.live_lease_until_ms > now_ms THEN
                verdict := 'overlap'; recorded := true; prior := j.high; opens := 'skipped';
                j.skip_slot := q.slot; j.skip_token := q.token; j.skip_previous_high := j.high;
                j.high := q.slot;
            ELSE
                verdict := 'won'; prior := j.high; opens := 'running';
                hints := j.live_slot IS NOT NULL;
                closes := 'superseded';
                j.live_crashes := 0; j.live_previous_high := j.high;
                j.high := q.slot;
            END IF;

            IF NOT locked THEN
                locked := true;
                CONTINUE judge;
            END IF;
            IF opens = 'running' THEN
                j.live_slot := q.slot; j.live_attempt := q.attempt; j.live_token := q.token;
                j.live_instance_id := q.instance_id; j.live_lease_until_ms := now_ms + q.lease_ms;
            ELSIF j.live_slot IS NULL THEN
                j.live_attempt := NULL; j.live_token := NULL; j.live_instance_id := NULL;
                j.live_lease_until_ms := NULL; j.live_crashes := NULL; j.live_previous_high := NULL;
            END IF;
            IF opens IS NOT NULL THEN
                IF q.fingerprint IS NOT NULL THEN
                    IF j.fingerprint <> q.fingerprint THEN
                        j.since_ms := now_ms;
                    END IF;
                    j.fingerprint := q.fingerprint; j.zone_digests := q.zone_digests;
                END IF;
                j.unpruned := coalesce(j.unpruned, 0) + 1;
            END IF;
            top := j.high; since := j.since_ms;
            IF NOT known THEN
                j.job := q.job;
                INSERT INTO {schema}.jobs SELECT j.* ON CONFLICT DO NOTHING;
                -- Somebody else has made the job known in between: judge again, by what is there now.
                CONTINUE judge WHEN NOT FOUND;
            ELSIF opens IS NULL AND closes IS NULL THEN
                UPDATE {schema}.jobs t SET live_lease_until_ms = j.live_lease_until_ms WHERE t.job = q.job;
            ELSE
                UPDATE {schema}.jobs t SET
                    high = j.high, live_slot = j.live_slot, live_attempt = j.live_attempt, live_token = j.live_token,
                    live_instance_id = j.live_instance_id, live_lease_until_ms = j.live_lease_until_ms,
                    live_crashes = j.live_crashes, live_previous_high = j.live_previous_high,
                    skip_slot = j.skip_slot, skip_token = j.skip_token, skip_previous_high = j.skip_previous_high,
                    fingerprint = j.fingerprint, zone_digests = j.zone_digests, since_ms = j.since_ms,
                    unpruned = CASE WHEN j.unpruned > p_keep / 32 THEN 0 ELSE j.unpruned END
                    WHERE t.job = q.job;
            END IF;
            IF closes IS NOT NULL AND ended_slot IS NOT NULL AND NOT released THEN
                PERFORM {schema}.close_v1(q.job, ended_slot, ended_attempt, 'interrupted', closes, NULL, NULL, now_ms);
            END IF;
            IF opens IS NOT NULL THEN
                INSERT INTO {schema}.runs AS r
                    (job, slot, attempt, token, instance_id, status, reason, claimed_ms, finished_ms)
                    VALUES (q.job, q.slot, q.attempt, q.token, q.instance_id, opens,
                        CASE WHEN opens = 'skipped' THEN 'overlap' END, now_ms, CASE WHEN opens = 'skipped' THEN now_ms END)
                    ON CONFLICT ON CONSTRAINT runs_pkey DO UPDATE SET
                        token = excluded.token, instance_id = excluded.instance_id, status = excluded.status,
                        reason = excluded.reason, claimed_ms = excluded.claimed_ms, started_ms = NULL,
                        finished_ms = excluded.finished_ms, error = NULL;
                IF j.unpruned > p_keep / 32 THEN
                    PERFORM {schema}.prune_v1(q.job, p_keep);
                END IF;
            END IF;
            IF hints THEN
                PERFORM pg_notify('{channel}', q.job);
            END IF;
            EXIT judge;
        END LOOP;
        IF verdict IN ('running', 'overlap') AND j.live_slot IS NOT NULL THEN
            run_slot := j.live_slot; run_attempt := j.live_attempt; run_instance_id := j.live_instance_id;
            run_remaining_ms := CASE WHEN released THEN 0 ELSE greatest(0, j.live_lease_until_ms - now_ms) END;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF p_age_ms IS NOT NULL THEN
        PERFORM {schema}.sweep_v1({schema}.now_v1() - p_age_ms);
    END IF;
END
$function$;
