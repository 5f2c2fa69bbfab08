-- Begin a batch: refuse what would make it wrong, and bound its waits for locks.
-- Under a stricter isolation a row that somebody else has changed is an error instead of an answer.
CREATE FUNCTION {schema}.begin_v1(p_lock_ms bigint) RETURNS void LANGUAGE plpgsql AS $function$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'anarchon needs READ COMMITTED, this transaction is %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'AN001';
    END IF;
    -- Ends with the transaction, so that nothing of it is left on a connection that others share.
    PERFORM set_config('lock_timeout', p_lock_ms::text, true);
END
$function$;

-- The store's clock in whole milliseconds; it goes on while a statement runs.
CREATE FUNCTION {schema}.now_v1() RETURNS bigint LANGUAGE sql VOLATILE AS $function$
    SELECT floor(date_part('epoch', clock_timestamp()) * 1000)::bigint
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

-- Close the record of an attempt that is running; one that has ended already stays as it is.
CREATE FUNCTION {schema}.close_v1(
    p_job text, p_slot bigint, p_attempt bigint, p_status text, p_reason text, p_error text,
    p_started_ms bigint, p_now_ms bigint
) RETURNS void LANGUAGE plpgsql AS $function$
BEGIN
    UPDATE {schema}.runs r
        SET status = p_status, reason = p_reason, error = p_error,
            started_ms = coalesce(r.started_ms, p_started_ms), finished_ms = p_now_ms
        WHERE r.job = p_job AND r.slot = p_slot AND r.attempt = p_attempt AND r.status = 'running';
END
$function$;
