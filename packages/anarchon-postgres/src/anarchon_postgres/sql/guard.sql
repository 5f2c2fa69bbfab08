-- Refuse what would make a batch wrong: under a stricter isolation, a row that somebody else has changed is an error.
CREATE FUNCTION {schema}.refuse_v1() RETURNS void LANGUAGE plpgsql AS $function$
BEGIN
    RAISE EXCEPTION 'anarchon needs READ COMMITTED, this transaction is %', upper(current_setting('transaction_isolation'))
        USING ERRCODE = 'AN001';
END
$function$;

-- The store's clock in whole milliseconds; it goes on while a statement runs.
CREATE FUNCTION {schema}.now_v1() RETURNS bigint LANGUAGE sql VOLATILE AS $function$
    SELECT {now}
$function$;

-- Forget the records of a job behind the newest p_keep, but none that is running.
CREATE FUNCTION {schema}.prune_v1(p_job text, p_keep bigint) RETURNS void LANGUAGE plpgsql AS $function$
DECLARE
    v_slot bigint;
    v_attempt bigint;
BEGIN
    SELECT r.slot, r.attempt INTO v_slot, v_attempt FROM {schema}.runs r
        WHERE r.job = p_job ORDER BY r.slot DESC, r.attempt DESC OFFSET p_keep LIMIT 1;
    IF FOUND THEN
        DELETE FROM {schema}.runs r
            WHERE r.job = p_job AND (r.slot, r.attempt) <= (v_slot, v_attempt) AND r.status <> 'running';
    END IF;
END
$function$;

-- Forget some records of any job that ended before an instant; the oldest slots go first.
-- What ended before it is of a slot before it, which the index finds. Rows that somebody holds are left for later.
CREATE FUNCTION {schema}.sweep_v1(p_before_ms bigint) RETURNS void LANGUAGE sql AS $function$
    DELETE FROM {schema}.runs d WHERE d.ctid = ANY (ARRAY(
        SELECT r.ctid FROM {schema}.runs r
        WHERE r.slot < p_before_ms AND r.finished_ms < p_before_ms
        ORDER BY r.slot LIMIT 500 FOR UPDATE SKIP LOCKED))
$function$;
