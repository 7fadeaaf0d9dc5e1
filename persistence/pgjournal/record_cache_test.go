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

// owner holds the shard of a slot.
type owner struct {
	t     *testing.T
	j     *pgjournal.Journal
	slot  ident.Slot
	epoch uint64
}

func newOwner(t *testing.T, url string) *owner {
	j, head, _ := claimStands(t, fast(url), 0x30)
	return &owner{t, j, 0x30, head.Epoch}
}

// write commits records without an event, as a tally or a label is.
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

// requireItem requires a document, empty for none, twice: the second answer is from memory. It is what is stored.
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

// tamper changes all documents behind the journal's back.
func tamper(t *testing.T, url, document string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), fmt.Sprintf(`UPDATE journal_record SET document = '%s'`, document))
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
}

func (o *owner) document(id string) string {
	o.t.Helper()
	record, err := o.j.Record(o.t.Context(), o.slot, "item", id)
	require.NoError(o.t, err)
	return string(record.Document)
}

// TestRecordsOfAHeldShardAreKept: the server is asked for a record once, and not for what is committed to it since. An audit
// asks.
func TestRecordsOfAHeldShardAreKept(t *testing.T) {
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
	require.Equal(t, `5`, o.document("a"))
	stored, err := o.j.Record(persistence.AsStored(t.Context()), o.slot, "item", "a")
	require.NoError(t, err)
	require.Equal(t, `"changed"`, string(stored.Document))
	require.Equal(t, `5`, o.document("a"), "what an audit has read is no answer to others")
	heads, err := o.j.Raise(t.Context(), o.slot.Shard())
	require.NoError(t, err)
	require.Equal(t, `"changed"`, o.document("a"), "what an earlier epoch has done is not known")
	o.epoch = heads[0].Epoch
	tamper(t, url, `"again"`)
	require.Equal(t, `"changed"`, o.document("a"))
}

// TestRecordsOfOthersAreNotKept: a process that does not hold the shard sees what its holder commits.
func TestRecordsOfOthersAreNotKept(t *testing.T) {
	url := databases.Database(t)
	o := newOwner(t, url)
	reader := open(t, fast(url))
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	for n := range 3 {
		require.NoError(t, o.write(item("a", fmt.Sprint(n))))
		record, err := reader.Record(t.Context(), o.slot, "item", "a")
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(n), string(record.Document))
	}
}

// newCutOff is an owner that keeps the record a and loses the answers to some COMMITs; database leads around that.
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

// TestALostAnswerKeepsNoRecord: whether a commit landed whose answer was lost, the record is asked for anew, and kept again when
// the shard was raised.
func TestALostAnswerKeepsNoRecord(t *testing.T) {
	o, database, lost := newCutOff(t)
	lost((*pgtest.Commit).LoseAnswer, func() error { return o.write(item("a", `2`)) })
	for _, document := range []string{`3`, `4`} { // as if it landed late
		tamper(t, database, document)
		require.Equal(t, document, o.document("a"))
	}
	_, err := o.j.Raise(t.Context(), o.slot.Shard())
	require.NoError(t, err)
	require.Equal(t, `4`, o.document("a"))
	tamper(t, database, `5`)
	require.Equal(t, `4`, o.document("a"))
}

// TestASucceededProcessAnswersNoKeptRecord: whoever reads that its shard was taken shows nothing of what it read, nor what it
// keeps.
func TestASucceededProcessAnswersNoKeptRecord(t *testing.T) {
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
			j, head, fatal := claimStands(t, fast(url), slot)
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

// TestKeptRecordsNeedTheServer: whoever has not heard from the server for a moment asks it, and its answer is good for all
// records of the shard; a commit's, a look at the heads' and a Raise's are too.
func TestKeptRecordsNeedTheServer(t *testing.T) {
	url := databases.Database(t)
	o := newOwner(t, url)
	require.NoError(t, o.write(item("a", `1`), item("b", `1`)))
	o.requireItem("a", `1`)
	o.requireItem("b", `1`)
	tamper(t, url, `2`)
	require.Equal(t, `1`, o.document("a"))
	o.j.Turn(time.Hour)
	require.Equal(t, `2`, o.document("a"))
	require.Equal(t, `1`, o.document("b"), "the server has said that the shard is this process's")
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
		require.Equal(t, `1`, o.document("b"), name)
	}
	o.j.Turn(time.Hour)
	require.Equal(t, `2`, o.document("b"))
}

// TestALostRaiseKeepsNoRecord: the epoch after it may be another process's, which this one cannot tell.
func TestALostRaiseKeepsNoRecord(t *testing.T) {
	o, database, lost := newCutOff(t)
	lost((*pgtest.Commit).LoseAnswer, func() error {
		_, err := o.j.Raise(t.Context(), o.slot.Shard())
		return err
	})
	for _, document := range []string{`2`, `3`} {
		tamper(t, database, document)
		require.Equal(t, document, o.document("a"))
	}
}

// TestALookupBesideARaiseKeepsNothing: what it has read is of before the commit for whose end the Raise waits.
func TestALookupBesideARaiseKeepsNothing(t *testing.T) {
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
	require.Equal(t, `1`, o.document("a"))
	close(release)
	require.NoError(t, <-raised)
	require.Equal(t, `2`, o.document("a"))
}

// TestAStandbyKeepsNoRecord: what it shows may be of a while ago, and stays with who asked for it.
func TestAStandbyKeepsNoRecord(t *testing.T) {
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
	require.Equal(t, `2`, o.document("a"))
	_, err = conn.Exec(t.Context(), `DELETE FROM public.standby`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	tamper(t, url, `3`)
	require.NoError(t, o.j.Refresh(t.Context()))
	require.Equal(t, `3`, o.document("a"))
}
