-- What decides about a job: one row a job, which is never pruned, since `high` protects its slots.
-- Half of each page is left free, so that a renewal's new row version finds room beside the old one.
CREATE TABLE {schema}.jobs (
    job text COLLATE "C" PRIMARY KEY,
    high bigint,
    live_slot bigint,
    live_attempt bigint,
    live_token text,
    live_instance_id text,
    live_lease_until_ms bigint,
    live_crashes bigint,
    live_previous_high bigint,
    skip_slot bigint,
    skip_token text,
    skip_previous_high bigint,
    fingerprint text,
    zone_digests text,
    since_ms bigint,
    unpruned bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The history: one row an attempt.
CREATE TABLE {schema}.runs (
    job text COLLATE "C" NOT NULL,
    slot bigint NOT NULL,
    attempt bigint NOT NULL,
    token text NOT NULL,
    instance_id text NOT NULL,
    status text NOT NULL,
    reason text,
    claimed_ms bigint NOT NULL,
    started_ms bigint,
    finished_ms bigint,
    error text,
    PRIMARY KEY (job, slot, attempt)
) WITH (fillfactor = 80);

-- For the history of all jobs, and for pruning by age.
CREATE INDEX runs_by_slot ON {schema}.runs (slot DESC, job, attempt DESC);
