-- Long payloads, the runs of relayed swipes, are packed by lz4 where the server was built with it: pglz takes several times as long
-- for a little less space. What is stored already stays as it is and is read as before.

-- Whoever reads or writes events waits while this waits for them: it gives up soon, and a start tries again.

-- +goose Up

SET LOCAL lock_timeout = '5s';

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

-- +goose Down

SET LOCAL lock_timeout = '5s';

-- +goose StatementBegin
DO $$
DECLARE
    events regclass;
BEGIN
    FOR events IN SELECT relid FROM pg_partition_tree('journal_event') LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN payload SET COMPRESSION DEFAULT', events);
    END LOOP;
END
$$;
-- +goose StatementEnd
