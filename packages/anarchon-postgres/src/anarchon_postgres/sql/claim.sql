-- Answer a batch of claims by the table of specs/backend.md, one row an item.
-- Items come in the order of (job, slot), so that two batches never wait for each other in a circle.
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
    v_job text;
    v_slot bigint;
    v_attempt bigint;
    v_token text;
    v_unpruned bigint;
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
    {begin}
    FOR i IN 1 .. cardinality(p_job) LOOP
        item := i;
        v_job := p_job[i]; v_slot := p_slot[i]; v_attempt := p_attempt[i]; v_token := p_token[i];
        why := NULL; prior := NULL; recorded := false;
        run_slot := NULL; run_attempt := NULL; run_remaining_ms := NULL; run_instance_id := NULL;

        -- The common case in one statement: a new slot that is due, and nothing in its way. Where that is not so,
        -- nothing was locked, and the table below decides.
        now_ms := {now};
        IF v_attempt = 1 AND v_slot <= now_ms + 500
            AND (p_not_after_ms[i] IS NULL OR now_ms <= p_not_after_ms[i])
            AND (p_max_lateness_ms[i] IS NULL OR v_slot >= now_ms - p_max_lateness_ms[i])
        THEN
            UPDATE {schema}.jobs t SET
                high = v_slot, live_slot = v_slot, live_attempt = 1, live_token = v_token,
                live_instance_id = p_instance_id[i], live_lease_until_ms = {now} + p_lease_ms[i],
                live_crashes = 0, live_previous_high = t.high,
                fingerprint = coalesce(p_fingerprint[i], t.fingerprint),
                zone_digests = CASE WHEN p_fingerprint[i] IS NULL THEN t.zone_digests ELSE p_zone_digests[i] END,
                since_ms = CASE WHEN t.fingerprint <> p_fingerprint[i] THEN now_ms ELSE t.since_ms END,
                unpruned = CASE WHEN t.unpruned > p_keep / 32 THEN 0 ELSE t.unpruned + 1 END
                WHERE t.job = v_job AND t.live_slot IS NULL AND (t.high < v_slot OR t.high IS NULL)
                RETURNING t.live_previous_high, t.since_ms, t.unpruned INTO prior, since, v_unpruned;
            IF FOUND THEN
                now_ms := {now};
                IF now_ms > p_not_after_ms[i] THEN
                    -- It waited for the row too long; its sender has given up. Nothing of this batch stands.
                    RAISE EXCEPTION 'a claim waited for its row until its time was over' USING ERRCODE = 'AN002';
                END IF;
                INSERT INTO {schema}.runs (job, slot, attempt, token, instance_id, status, claimed_ms)
                    VALUES (v_job, v_slot, 1, v_token, p_instance_id[i], 'running', now_ms);
                IF v_unpruned = 0 THEN
                    PERFORM {schema}.prune_v1(v_job, p_keep);
                END IF;
                verdict := 'won'; top := v_slot;
                RETURN NEXT;
                CONTINUE;
            END IF;
        END IF;

        locked := false;
        <<judge>> LOOP
            -- The first look takes no lock: most claims lose, and losers need not queue behind the winner.
            IF locked THEN
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = v_job FOR NO KEY UPDATE;
            ELSE
                SELECT * INTO j FROM {schema}.jobs t WHERE t.job = v_job;
            END IF;
            known := FOUND;
            -- The clock is read after the lock was waited for: a lease may have ended meanwhile.
            now_ms := {now};
            top := j.high; since := j.since_ms; why := NULL; prior := NULL; recorded := false;
            run_slot := NULL; run_attempt := NULL; run_remaining_ms := NULL; run_instance_id := NULL;
            released := j.live_slot IS NOT NULL AND j.live_token IS NULL;
            closes := NULL; opens := NULL; hints := false;
            ended_slot := j.live_slot; ended_attempt := j.live_attempt;

            IF j.live_slot = v_slot AND j.live_attempt = v_attempt AND j.live_token = v_token THEN
                verdict := 'won'; prior := j.live_previous_high;
                j.live_lease_until_ms := now_ms + p_lease_ms[i];
            ELSIF v_slot = j.high AND j.skip_slot = v_slot AND j.skip_token = v_token THEN
                verdict := 'overlap'; recorded := true; prior := j.skip_previous_high;
                EXIT judge;
            ELSIF now_ms > p_not_after_ms[i] THEN
                verdict := 'late'; why := 'expired';
                EXIT judge;
            ELSIF j.live_slot = v_slot THEN
                IF v_attempt <> j.live_attempt + 1 OR NOT (released OR j.live_lease_until_ms <= now_ms) THEN
                    verdict := 'running';
                    EXIT judge;
                END IF;
                hints := true;
                j.live_crashes := j.live_crashes + (NOT released)::int;
                IF NOT p_takeover[i] OR (NOT released AND j.live_crashes >= p_max_crashes[i]) THEN
                    verdict := 'done'; why := 'given_up';
                    closes := CASE WHEN p_takeover[i] THEN 'max_crashes' ELSE 'takeover_off' END;
                    j.live_slot := NULL;
                ELSE
                    verdict := 'won'; prior := j.live_previous_high;
                    closes := 'lease_expired'; opens := 'running';
                END IF;
            ELSIF v_slot < j.high THEN
                verdict := 'late'; why := 'superseded';
                EXIT judge;
            ELSIF v_slot = j.high THEN
                verdict := 'done'; why := 'ended';
                EXIT judge;
            ELSIF v_attempt > 1 THEN
                verdict := 'none';
                EXIT judge;
            ELSIF v_slot > now_ms + 500 THEN
                verdict := 'early';
                EXIT judge;
            ELSIF v_slot < now_ms - p_max_lateness_ms[i] THEN
                verdict := 'late'; why := 'too_old';
                EXIT judge;
            ELSIF j.live_slot IS NOT NULL AND p_wait[i] THEN
                verdict := 'overlap';
                EXIT judge;
            ELSIF j.live_slot IS NOT NULL AND NOT released AND j.live_lease_until_ms > now_ms THEN
                verdict := 'overlap'; recorded := true; prior := j.high; opens := 'skipped';
                j.skip_slot := v_slot; j.skip_token := v_token; j.skip_previous_high := j.high;
                j.high := v_slot;
            ELSE
                verdict := 'won'; prior := j.high; opens := 'running';
                hints := j.live_slot IS NOT NULL;
                closes := 'superseded';
                j.live_crashes := 0; j.live_previous_high := j.high;
                j.high := v_slot;
            END IF;

            IF NOT locked THEN
                locked := true;
                CONTINUE judge;
            END IF;
            IF opens = 'running' THEN
                j.live_slot := v_slot; j.live_attempt := v_attempt; j.live_token := v_token;
                j.live_instance_id := p_instance_id[i]; j.live_lease_until_ms := now_ms + p_lease_ms[i];
            ELSIF j.live_slot IS NULL THEN
                j.live_attempt := NULL; j.live_token := NULL; j.live_instance_id := NULL;
                j.live_lease_until_ms := NULL; j.live_crashes := NULL; j.live_previous_high := NULL;
            END IF;
            IF opens IS NOT NULL THEN
                IF p_fingerprint[i] IS NOT NULL THEN
                    IF j.fingerprint <> p_fingerprint[i] THEN
                        j.since_ms := now_ms;
                    END IF;
                    j.fingerprint := p_fingerprint[i]; j.zone_digests := p_zone_digests[i];
                END IF;
                j.unpruned := coalesce(j.unpruned, 0) + 1;
            END IF;
            top := j.high; since := j.since_ms;
            IF NOT known THEN
                j.job := v_job;
                INSERT INTO {schema}.jobs SELECT j.* ON CONFLICT DO NOTHING;
                -- Somebody else has made the job known in between: judge again, by what is there now.
                CONTINUE judge WHEN NOT FOUND;
            ELSIF opens IS NULL AND closes IS NULL THEN
                UPDATE {schema}.jobs t SET live_lease_until_ms = j.live_lease_until_ms WHERE t.job = v_job;
            ELSE
                UPDATE {schema}.jobs t SET
                    high = j.high, live_slot = j.live_slot, live_attempt = j.live_attempt, live_token = j.live_token,
                    live_instance_id = j.live_instance_id, live_lease_until_ms = j.live_lease_until_ms,
                    live_crashes = j.live_crashes, live_previous_high = j.live_previous_high,
                    skip_slot = j.skip_slot, skip_token = j.skip_token, skip_previous_high = j.skip_previous_high,
                    fingerprint = j.fingerprint, zone_digests = j.zone_digests, since_ms = j.since_ms,
                    unpruned = CASE WHEN j.unpruned > p_keep / 32 THEN 0 ELSE j.unpruned END
                    WHERE t.job = v_job;
            END IF;
            IF closes IS NOT NULL AND ended_slot IS NOT NULL AND NOT released THEN
                UPDATE {schema}.runs r SET status = 'interrupted', reason = closes, finished_ms = now_ms
                    WHERE r.job = v_job AND r.slot = ended_slot AND r.attempt = ended_attempt AND r.status = 'running';
            END IF;
            IF opens IS NOT NULL THEN
                IF NOT known THEN
                    -- Left over from a job whose row somebody has deleted.
                    DELETE FROM {schema}.runs r WHERE r.job = v_job AND r.slot = v_slot AND r.attempt = v_attempt;
                END IF;
                INSERT INTO {schema}.runs
                    (job, slot, attempt, token, instance_id, status, reason, claimed_ms, finished_ms)
                    VALUES (v_job, v_slot, v_attempt, v_token, p_instance_id[i], opens,
                        CASE WHEN opens = 'skipped' THEN 'overlap' END, now_ms,
                        CASE WHEN opens = 'skipped' THEN now_ms END);
                IF j.unpruned > p_keep / 32 THEN
                    PERFORM {schema}.prune_v1(v_job, p_keep);
                END IF;
            END IF;
            IF hints THEN
                PERFORM pg_notify('{channel}', v_job);
            END IF;
            EXIT judge;
        END LOOP;
        -- Every answer but won names the run that is live: whoever hears it becomes a backup of that run.
        IF verdict <> 'won' AND j.live_slot IS NOT NULL THEN
            run_slot := j.live_slot; run_attempt := j.live_attempt; run_instance_id := j.live_instance_id;
            run_remaining_ms := CASE WHEN released THEN 0 ELSE greatest(0, j.live_lease_until_ms - now_ms) END;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF p_age_ms IS NOT NULL THEN
        PERFORM {schema}.sweep_v1({now} - p_age_ms);
    END IF;
END
$function$;
