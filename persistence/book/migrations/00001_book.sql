-- The tables of the book. Strings are compared by their bytes. An amount is in minor units of its currency (cents of a dollar):
-- positive is a credit, negative a debit. A shard is written by one transaction at a time, the one that has moved its row of
-- book.shard.

-- +goose Up

-- The journal that the book follows, and every incarnation that it ever followed.
CREATE TABLE book.store (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    deployment uuid NOT NULL,
    store      uuid NOT NULL
);

CREATE TABLE book.incarnation (
    store uuid PRIMARY KEY,
    began timestamptz NOT NULL DEFAULT now()
);

-- position is that of the last event whose postings are in the book; store is book.store's. The rows are rewritten with every
-- transaction: with room on their pages no index is touched.
CREATE TABLE book.shard (
    id       smallint PRIMARY KEY,
    store    uuid NOT NULL,
    position bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

-- balance is credits less debits and entries the number of postings, both as of the shard's position.
CREATE TABLE book.account (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shard     smallint NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    currency  text COLLATE "C" NOT NULL,
    side      text COLLATE "C" NOT NULL CHECK (side IN ('debit', 'credit')), -- the side on which it normally stands
    balance   bigint NOT NULL DEFAULT 0,
    entries   bigint NOT NULL DEFAULT 0,
    UNIQUE (workspace, name, currency),
    UNIQUE (id, shard, currency)
) WITH (fillfactor = 70);

CREATE INDEX account_shard ON book.account (shard);

-- A group can be moved by more than one event, so a transfer is an event's part of a group. ordinal is the leg it begins with.
CREATE TABLE book.transfer (
    shard    smallint NOT NULL,
    position bigint NOT NULL,
    ordinal  integer NOT NULL,
    id       text COLLATE "C" NOT NULL, -- the group, tg_…
    event    text COLLATE "C" NOT NULL, -- the cause
    kind     text COLLATE "C" NOT NULL, -- the event's type
    at       timestamptz NOT NULL,
    PRIMARY KEY (shard, position, ordinal)
);

CREATE INDEX transfer_id ON book.transfer (id);

-- leg counts the postings of an event, number those of the account from 1. balance is the account's after this posting.
CREATE TABLE book.posting (
    shard    smallint NOT NULL,
    position bigint NOT NULL,
    leg      integer NOT NULL,
    ordinal  integer NOT NULL,
    account  bigint NOT NULL,
    currency text COLLATE "C" NOT NULL,
    number   bigint NOT NULL CHECK (number > 0),
    at       timestamptz NOT NULL,
    amount   bigint NOT NULL,
    balance  bigint NOT NULL,
    PRIMARY KEY (shard, position, leg),
    UNIQUE (account, number),
    FOREIGN KEY (shard, position, ordinal) REFERENCES book.transfer,
    FOREIGN KEY (account, shard, currency) REFERENCES book.account (id, shard, currency)
);

CREATE INDEX posting_at ON book.posting (account, at, number);

-- All postings of a transfer are inserted by one statement, and sum to zero in each currency.
-- +goose StatementBegin
CREATE FUNCTION book.refuse_unbalanced() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    one record;
BEGIN
    SELECT shard, position, ordinal, currency, sum(amount) AS total INTO one FROM added
    GROUP BY shard, position, ordinal, currency HAVING sum(amount) <> 0 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'transfer % of event % of shard % is off by % %',
            one.ordinal, one.position, one.shard, one.total, one.currency USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER balanced AFTER INSERT ON book.posting REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION book.refuse_unbalanced();

-- What is booked is never changed.
-- +goose StatementBegin
CREATE FUNCTION book.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'table % only grows', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER fixed BEFORE UPDATE OR DELETE ON book.posting FOR EACH STATEMENT EXECUTE FUNCTION book.refuse_change();
CREATE TRIGGER fixed BEFORE UPDATE OR DELETE ON book.transfer FOR EACH STATEMENT EXECUTE FUNCTION book.refuse_change();

-- The trial balance, added up from the postings. In each currency the debits of all accounts are the credits.
CREATE VIEW book.trial_balance AS
SELECT a.name AS account, a.currency, a.side,
    COALESCE(sum(-p.amount) FILTER (WHERE p.amount < 0), 0) AS debits,
    COALESCE(sum(p.amount) FILTER (WHERE p.amount > 0), 0) AS credits
FROM book.account a LEFT JOIN book.posting p ON p.account = a.id
GROUP BY a.name, a.currency, a.side;

-- What contradicts itself in the book: no rows when it is sound. Every amount is added up again.
CREATE VIEW book.difference AS
SELECT 'balance after posting' AS what, shard, account::text AS id, number AS at, due AS expected, balance::numeric AS actual
FROM (
    SELECT shard, account, number, balance, sum(amount) OVER (PARTITION BY account ORDER BY number) AS due FROM book.posting
) p WHERE balance <> due
UNION ALL
SELECT 'number of posting', shard, account::text, number, due, number
FROM (
    SELECT shard, account, number, row_number() OVER (PARTITION BY account ORDER BY number) AS due FROM book.posting
) p WHERE number <> due
UNION ALL
SELECT 'balance of account', a.shard, a.id::text, a.entries, COALESCE(sum(p.amount), 0), a.balance
FROM book.account a LEFT JOIN book.posting p ON p.account = a.id
GROUP BY a.id HAVING COALESCE(sum(p.amount), 0) <> a.balance
UNION ALL
SELECT 'entries of account', a.shard, a.id::text, a.entries, count(p.account), a.entries
FROM book.account a LEFT JOIN book.posting p ON p.account = a.id
GROUP BY a.id HAVING count(p.account) <> a.entries
UNION ALL
SELECT 'sum of transfer', shard, ordinal::text, position, 0, sum(amount)
FROM book.posting GROUP BY shard, position, ordinal, currency HAVING sum(amount) <> 0
UNION ALL
SELECT 'transfer without postings', t.shard, t.id, t.position, 1, 0
FROM book.transfer t WHERE NOT EXISTS (
    SELECT FROM book.posting p WHERE p.shard = t.shard AND p.position = t.position AND p.ordinal = t.ordinal
);

-- +goose Down

DROP VIEW book.difference, book.trial_balance;
DROP TABLE book.posting, book.transfer, book.account, book.shard, book.incarnation, book.store;
DROP FUNCTION book.refuse_unbalanced(), book.refuse_change();
