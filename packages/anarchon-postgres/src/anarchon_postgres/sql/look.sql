-- Answer one claim, in one statement that writes and locks nothing where the claim is lost in the ordinary way: the run
-- goes on, is over, or a newer one has begun. Those rows of the table ask nothing but what is read here in one snapshot,
-- and the clock after it, just as the function's own first look does. Anything else is left to the function.
SELECT n.now_ms, t.high AS top, t.since_ms AS since,
    t.live_slot AS run_slot, t.live_attempt AS run_attempt, t.live_instance_id AS run_instance_id,
    CASE WHEN t.live_token IS NULL THEN 0 ELSE greatest(0, t.live_lease_until_ms - n.now_ms) END AS run_remaining_ms,
    CASE
        WHEN t.high >= $2::bigint AND t.skip_slot IS DISTINCT FROM $2::bigint
            AND ($7::bigint IS NULL OR n.now_ms <= $7::bigint)
            AND (
                t.live_slot IS DISTINCT FROM $2::bigint
                OR NOT (t.live_attempt = $3::bigint AND t.live_token IS NOT DISTINCT FROM $4::text)
                    AND NOT (
                        t.live_attempt + 1 = $3::bigint
                        AND (t.live_token IS NULL OR t.live_lease_until_ms <= n.now_ms)))
        THEN NULL
        ELSE {schema}.claim_one_v1(
            $1::text, $2::bigint, $3::bigint, $4::text, $5::text, $6::bigint, $7::bigint, $8::boolean, $9::bigint,
            $10::bigint, $11::boolean, $12::text, $13::text, $14::bigint, $15::bigint)
    END AS told
FROM (SELECT {now} AS now_ms OFFSET 0) n LEFT JOIN {schema}.jobs t ON t.job = $1::text
