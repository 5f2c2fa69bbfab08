-- Answer one claim, which the look of look.sql did not answer, by the table; the values of its row as texts.
-- What an array cannot hold is left out: it is one item, and no time to forget records.
CREATE FUNCTION {schema}.claim_one_v1(
    p_job text, p_slot bigint, p_attempt bigint, p_token text, p_instance_id text, p_lease_ms bigint,
    p_not_after_ms bigint, p_wait boolean, p_max_lateness_ms bigint, p_max_crashes bigint,
    p_takeover boolean, p_fingerprint text, p_zone_digests text, p_keep bigint, p_lock_ms bigint
) RETURNS text[] LANGUAGE plpgsql AS $function$
BEGIN
    RETURN (
        SELECT ARRAY[
            c.verdict, c.why, c.now_ms::text, c.top::text, c.prior::text, c.since::text, c.recorded::text,
            c.run_slot::text, c.run_attempt::text, c.run_remaining_ms::text, c.run_instance_id]
        FROM {schema}.claim_v1(
            ARRAY[p_job], ARRAY[p_slot], ARRAY[p_attempt], ARRAY[p_token], ARRAY[p_instance_id], ARRAY[p_lease_ms],
            ARRAY[p_not_after_ms], ARRAY[p_wait], ARRAY[p_max_lateness_ms], ARRAY[p_max_crashes],
            ARRAY[p_takeover], ARRAY[p_fingerprint], ARRAY[p_zone_digests], p_keep, NULL, p_lock_ms) c);
END
$function$;
