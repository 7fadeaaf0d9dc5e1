-- The tables of the journal. Strings are compared and ordered by their bytes: the database's own collation is not used.
-- A shard is written by one transaction at a time, the one that holds its row of journal_shard.

-- +goose Up

CREATE TABLE journal_store (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    format     integer NOT NULL,
    slots      integer NOT NULL,
    shards     integer NOT NULL,
    deployment uuid NOT NULL,
    store      uuid NOT NULL
);

-- head is the position of the newest event, ordinal the last one given at that position. The rows are rewritten with every commit:
-- with room on their pages no index is touched, and the dead rows are pruned without a vacuum.
CREATE TABLE journal_shard (
    id      smallint PRIMARY KEY,
    epoch   bigint NOT NULL DEFAULT 0,
    head    bigint NOT NULL DEFAULT 0,
    ordinal bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

INSERT INTO journal_shard (id) SELECT generate_series(0, 255);

CREATE TABLE journal_event (
    shard     smallint NOT NULL,
    position  bigint NOT NULL,
    id        text COLLATE "C" NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    stream    text COLLATE "C" NOT NULL,
    version   bigint NOT NULL,
    type      text COLLATE "C" NOT NULL,
    at        timestamptz NOT NULL,
    size      integer NOT NULL, -- bytes of the payload, so that a read can be bounded without opening it
    payload   json,
    PRIMARY KEY (shard, position)
) PARTITION BY RANGE (shard);

-- +goose StatementBegin
DO $$
BEGIN
    FOR i IN 0..15 LOOP
        EXECUTE format('CREATE TABLE journal_event_%s PARTITION OF journal_event FOR VALUES FROM (%s) TO (%s)',
            lpad(i::text, 2, '0'), 16 * i, 16 * i + 16);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- Long payloads, the runs of relayed swipes, are packed by lz4 where the server was built with it: pglz takes several times as long
-- for a little less space.
-- +goose StatementBegin
DO $$
DECLARE
    events regclass;
BEGIN
    FOR events IN SELECT relid FROM pg_partition_tree('journal_event') LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN payload SET COMPRESSION lz4', events);
    END LOOP;
EXCEPTION WHEN feature_not_supported THEN
    RAISE NOTICE 'the server has no lz4: payloads stay packed by pglz';
END
$$;
-- +goose StatementEnd

CREATE TABLE journal_stream (
    shard   smallint NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    stream  text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (shard, kind, stream)
) WITH (fillfactor = 80);

CREATE TABLE journal_record (
    shard     smallint NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    id        text COLLATE "C" NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    parent    text COLLATE "C" NOT NULL,
    slot      smallint NOT NULL,
    version   bigint NOT NULL,
    position  bigint NOT NULL,
    ordinal   bigint NOT NULL,
    document  json,
    PRIMARY KEY (shard, kind, id)
) WITH (fillfactor = 80);

CREATE INDEX journal_record_list ON journal_record (shard, kind, workspace, parent, position DESC, ordinal DESC);

CREATE TABLE journal_once (
    shard       smallint NOT NULL,
    scope       text COLLATE "C" NOT NULL,
    hash        bytea NOT NULL,
    fingerprint bytea NOT NULL,
    expires     timestamptz, -- null: held for ever
    answer      bytea,
    PRIMARY KEY (shard, scope, hash)
);

CREATE INDEX journal_once_expires ON journal_once (shard, expires) WHERE expires IS NOT NULL;

CREATE TABLE journal_timer (
    shard     smallint NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    stream    text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    slot      smallint NOT NULL,
    due       timestamptz NOT NULL,
    PRIMARY KEY (shard, kind, stream, key)
);

CREATE INDEX journal_timer_due ON journal_timer (shard, due);

CREATE TABLE journal_cursor (
    shard    smallint NOT NULL,
    name     text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (shard, name)
) WITH (fillfactor = 50);

-- +goose Down

DROP TABLE journal_cursor, journal_timer, journal_once, journal_record, journal_stream, journal_event, journal_shard, journal_store;
