package pgjournal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

// owner is a process that owns the shard of a slot.
type owner struct {
	t     *testing.T
	j     *pgjournal.Journal
	slot  ident.Slot
	epoch uint64
}

func newOwner(t *testing.T, url string) *owner {
	j, head, _ := openAndRaise(t, fastOptions(url), 0x30)
	return &owner{t, j, 0x30, head.Epoch}
}

// write commits records without an event, as tallies and labels are.
func (o *owner) write(records ...persistence.Record) error {
	for i := range records {
		records[i].Kind = "item"
	}
	outcomes, err := o.j.Append(o.t.Context(), o.slot.Shard(), o.epoch, journaltest.Start,
		[]*persistence.Batch{{Workspace: "ws_1", Slot: o.slot, Records: records}})
	if err != nil {
		return err
	}
	return outcomes[0].Err
}

func item(id, document string) persistence.Record {
	return persistence.Record{ID: id, Parent: "of " + id, Document: json.RawMessage(document)}
}

// requireItem requires a document, empty for an absent record, in two reads: the second comes from
// memory. Both equal the stored record.
func (o *owner) requireItem(id, document string) {
	o.t.Helper()
	stored, missing := o.j.Record(persistence.AsStored(o.t.Context()), o.slot, "item", id)
	for range 2 {
		record, err := o.j.Record(o.t.Context(), o.slot, "item", id)
		require.Equal(o.t, missing, err)
		require.Equal(o.t, stored, record)
		require.Equal(o.t, document, string(record.Document))
	}
}

// tamper changes all documents past the journal.
func tamper(t *testing.T, url, document string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), fmt.Sprintf(`UPDATE journal_record SET document = '%s'`, document))
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
}

func (o *owner) readDocument(id string) string {
	o.t.Helper()
	record, err := o.j.Record(o.t.Context(), o.slot, "item", id)
	require.NoError(o.t, err)
	return string(record.Document)
}

// A process reads a record of its own shard from the server once, and never after its own commits.
// An AsStored read always queries the server.
func TestRecordsOfAnOwnedShardAreCached(t *testing.T) {
	url := databases.Database(t)
	o := newOwner(t, url)
	o.requireItem("a", "")
	require.NoError(t, o.write(item("a", `1`), item("b", `2`)))
	o.requireItem("a", `1`)
	o.requireItem("b", `2`)
	require.NoError(t, o.write(item("b", `3`)))
	o.requireItem("b", `3`)
	require.NoError(t, o.write(persistence.Record{ID: "a", Deleted: true}))
	o.requireItem("a", "")
	require.NoError(t, o.write(persistence.Record{ID: "b", Deleted: true}, item("b", `4`), item("a", `5`)))
	o.requireItem("b", `4`)
	o.requireItem("a", `5`)
	require.ErrorIs(t, o.write(item("a", "{")), persistence.ErrRefused)
	o.requireItem("a", `5`)
	o.requireItem("c", "")

	tamper(t, url, `"changed"`)
	require.Equal(t, `5`, o.readDocument("a"))
	stored, err := o.j.Record(persistence.AsStored(t.Context()), o.slot, "item", "a")
	require.NoError(t, err)
	require.Equal(t, `"changed"`, string(stored.Document))
	require.Equal(t, `5`, o.readDocument("a"), "an AsStored read changes no cached record")
	heads, err := o.j.Raise(t.Context(), o.slot.Shard())
	require.NoError(t, err)
	require.Equal(t, `"changed"`, o.readDocument("a"), "a Raise drops the records of the earlier epoch")
	o.epoch = heads[0].Epoch
	tamper(t, url, `"again"`)
	require.Equal(t, `"changed"`, o.readDocument("a"))
}

// A process that does not own the shard sees every commit of the owner.
func TestRecordsOfOtherShardsAreNotCached(t *testing.T) {
	url := databases.Database(t)
	o := newOwner(t, url)
	reader := open(t, fastOptions(url))
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	for n := range 3 {
		require.NoError(t, o.write(item("a", fmt.Sprint(n))))
		record, err := reader.Record(t.Context(), o.slot, "item", "a")
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(n), string(record.Document))
	}
}

// newCutOff returns an owner that has cached record a, and a function that loses the answers to
// some COMMITs. database is the URL past the proxy.
func newCutOff(t *testing.T) (o *owner, database string, lost func(fate func(*pgtest.Commit), do func() error)) {
	database = databases.Database(t)
	p, through := pgtest.StartProxy(t, database)
	o = newOwner(t, through)
	require.NoError(t, o.write(item("a", `1`)))
	o.requireItem("a", `1`)
	return o, database, func(fate func(*pgtest.Commit), do func() error) {
		p.OnCommit(fate)
		require.ErrorIs(t, do(), persistence.ErrAmbiguous)
		p.OnCommit(nil)
	}
}

// After a lost answer to COMMIT the record is read from the server, and cached again after the next
// Raise.
func TestAmbiguousCommitDropsCachedRecords(t *testing.T) {
	o, database, lost := newCutOff(t)
	lost((*pgtest.Commit).LoseAnswer, func() error { return o.write(item("a", `2`)) })
	for _, document := range []string{`3`, `4`} { // as if the commit took effect late
		tamper(t, database, document)
		require.Equal(t, document, o.readDocument("a"))
	}
	_, err := o.j.Raise(t.Context(), o.slot.Shard())
	require.NoError(t, err)
	require.Equal(t, `4`, o.readDocument("a"))
	tamper(t, database, `5`)
	require.Equal(t, `4`, o.readDocument("a"))
}

// A process that finds its shard taken returns neither the records just read nor cached ones.
func TestFencedProcessServesNoCachedRecord(t *testing.T) {
	const slot = ident.Slot(0x30)
	for name, read := range map[string]func(*pgjournal.Journal) error{
		"lookup": func(j *pgjournal.Journal) error {
			_, err := j.Record(t.Context(), slot, "item", "other")
			return err
		},
		"list": func(j *pgjournal.Journal) error {
			_, err := j.List(t.Context(), slot, "item", "ws_1", "of a", persistence.Page{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := databases.Database(t)
			j, head, fatal := openAndRaise(t, fastOptions(url), slot)
			before := &owner{t, j, slot, head.Epoch}
			require.NoError(t, before.write(item("a", `1`)))
			before.requireItem("a", `1`)
			after := newOwner(t, url)
			require.NoError(t, after.write(item("a", `2`)))
			err := read(j)
			require.ErrorIs(t, err, persistence.ErrFenced)
			require.ErrorIs(t, err, pgjournal.ErrTaken)
			require.ErrorIs(t, <-fatal, pgjournal.ErrTaken)
			require.Equal(t, head.Epoch, j.Head(slot.Shard()).Epoch)
			_, err = j.Record(t.Context(), slot, "item", "a")
			require.ErrorIs(t, err, persistence.ErrFenced)
		})
	}
}

// Without a confirmation for recordsTrustedFor a lookup queries the server. Its answer confirms all
// records of the shard; so do a commit, a read of the heads and a Raise.
func TestCachedRecordsNeedConfirmation(t *testing.T) {
	url := databases.Database(t)
	o := newOwner(t, url)
	require.NoError(t, o.write(item("a", `1`), item("b", `1`)))
	o.requireItem("a", `1`)
	o.requireItem("b", `1`)
	tamper(t, url, `2`)
	require.Equal(t, `1`, o.readDocument("a"))
	o.j.Turn(time.Hour)
	require.Equal(t, `2`, o.readDocument("a"))
	require.Equal(t, `1`, o.readDocument("b"), "the lookup has confirmed ownership of the shard")
	for name, ask := range map[string]func() error{
		"list": func() error {
			_, err := o.j.List(t.Context(), o.slot, "item", "ws_1", "none", persistence.Page{})
			return err
		},
		"commit": func() error { return o.write(item("c", `1`)) },
		"heads":  func() error { return o.j.Refresh(t.Context()) },
	} {
		o.j.Turn(time.Hour)
		require.NoError(t, ask(), name)
		require.Equal(t, `1`, o.readDocument("b"), name)
	}
	o.j.Turn(time.Hour)
	require.Equal(t, `2`, o.readDocument("b"))
}

// The epoch after a lost Raise may belong to another process, which this one cannot tell.
func TestAmbiguousRaiseDropsCachedRecords(t *testing.T) {
	o, database, lost := newCutOff(t)
	lost((*pgtest.Commit).LoseAnswer, func() error {
		_, err := o.j.Raise(t.Context(), o.slot.Shard())
		return err
	})
	for _, document := range []string{`2`, `3`} {
		tamper(t, database, document)
		require.Equal(t, document, o.readDocument("a"))
	}
}

// A lookup beside a Raise reads the state before the commit that the Raise waits for.
func TestLookupDuringARaiseIsNotCached(t *testing.T) {
	o, database, lost := newCutOff(t)
	release, raised := make(chan struct{}), make(chan error)
	lost(func(c *pgtest.Commit) { c.CutThen(release) }, func() error { return o.write(item("a", `2`)) })
	go func() {
		_, err := o.j.Raise(context.Background(), o.slot.Shard())
		raised <- err
	}()
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var waits bool
		err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`).Scan(&waits)
		return err == nil && waits
	}, time.Minute, time.Millisecond)
	require.NoError(t, conn.Close(t.Context()))
	require.Equal(t, `1`, o.readDocument("a"))
	close(release)
	require.NoError(t, <-raised)
	require.Equal(t, `2`, o.readDocument("a"))
}

// A standby may lag: its answers are not cached.
func TestRecordsOfAStandbyAreNotCached(t *testing.T) {
	url := databases.Database(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `CREATE TABLE public.standby (); CREATE FUNCTION public.pg_is_in_recovery() RETURNS boolean
LANGUAGE sql AS 'SELECT EXISTS (SELECT FROM public.standby)'`)
	require.NoError(t, err)
	o := newOwner(t, url+"&search_path=public,pg_catalog")
	require.NoError(t, o.write(item("a", `1`)))
	_, err = conn.Exec(t.Context(), `INSERT INTO public.standby DEFAULT VALUES`)
	require.NoError(t, err)
	tamper(t, url, `2`)
	require.Equal(t, `2`, o.readDocument("a"))
	_, err = conn.Exec(t.Context(), `DELETE FROM public.standby`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	tamper(t, url, `3`)
	require.NoError(t, o.j.Refresh(t.Context()))
	require.Equal(t, `3`, o.readDocument("a"))
}
