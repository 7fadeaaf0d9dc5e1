package actors_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// thing is a record of which a workspace may have a limited number.
type thing struct {
	Made bool `json:"made"`
}

type thingMade struct{}

func (thingMade) EventType() string { return "thing.made.v1" }

// createThing creates a thing. Max 0 does not count it; a Name may be used once.
type createThing struct {
	ID, Name string
	Max      int64
}

func (s *thing) Decide(_ decision.Meta, command any) (decision.Decision, error) {
	c := command.(createThing)
	d := decision.Decision{Events: []decision.Event{thingMade{}}, Reply: true}
	if c.Max > 0 {
		d.Tallies = []decision.Tally{{Name: "thing", ID: c.ID, Max: c.Max}}
	}
	if c.Name != "" {
		d.Onces = []decision.Once{{Scope: "name", Key: c.Name, Code: "email_taken"}}
	}
	return d, nil
}

func (s *thing) Apply(decision.Event) { s.Made = true }

// thingSystem is a counterSystem of the things of one workspace.
type thingSystem struct {
	*counterSystem
	owner string
	next  atomic.Int64
}

func newThingSystem(t *testing.T) *thingSystem {
	return &thingSystem{owner: counterID(7), counterSystem: newCounterSystem(t, func(c *actors.Config) {
		c.Kinds = []actors.Kind{{Name: "thing", New: func() actors.State { return new(thing) }}}
	})}
}

func (r *thingSystem) create(name string, most int64) (string, error) {
	slot, err := ident.SlotOf(r.owner)
	require.NoError(r.t, err)
	id := ident.Derive(slot, time.UnixMilli(1), fmt.Sprint("thing ", r.next.Add(1))).Format("thg")
	_, err = r.system.Ask(r.t.Context(), actors.Envelope{Kind: "thing", Stream: id, Workspace: r.owner,
		Command: createThing{ID: id, Name: name, Max: most}})
	return id, err
}

// readTally returns the stored tally, and requires that it agrees with the stored things.
func (r *thingSystem) readTally() actors.Tally {
	slot, err := ident.SlotOf(r.owner)
	require.NoError(r.t, err)
	record, err := r.journal.Record(r.t.Context(), slot, actors.TallyKind("thing"), r.owner)
	require.NoError(r.t, err)
	var tally actors.Tally
	require.NoError(r.t, json.Unmarshal(record.Document, &tally))
	records, err := r.journal.List(r.t.Context(), slot, "thing", r.owner, "", persistence.Page{Limit: 1000})
	require.NoError(r.t, err)
	require.Len(r.t, records, int(tally.Count))
	require.Equal(r.t, records[len(records)-1].ID, tally.First)
	return tally
}

// TestATallyExcludesRefusedCommands: of concurrent commands half are refused because their name is
// taken. The tally counts the others, up to the limit.
func TestATallyExcludesRefusedCommands(t *testing.T) {
	r := newThingSystem(t)
	const most, names = 40, 60
	var wg sync.WaitGroup
	var done, taken, over atomic.Int64
	for i := range 2 * names {
		wg.Go(func() {
			switch _, err := r.create(fmt.Sprint("name ", i%names), most); {
			case err == nil:
				done.Add(1)
			case fault.Is(err, fault.EmailTaken):
				taken.Add(1)
			case fault.Is(err, fault.LimitExceeded):
				over.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, most, done.Load())
	require.EqualValues(t, 2*names, done.Load()+taken.Load()+over.Load())
	require.EqualValues(t, most, r.readTally().Count)
	r.restart()
	_, err := r.create("", most)
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
	_, err = r.create("", most+1)
	require.NoError(t, err)
	require.EqualValues(t, most+1, r.readTally().Count)
}

// TestATallyIsExactAfterAnAmbiguousCommit: an interrupted commit counts if and only if it was
// stored.
func TestATallyIsExactAfterAnAmbiguousCommit(t *testing.T) {
	r := newThingSystem(t)
	_, err := r.create("", 100)
	require.NoError(t, err)
	for i := range 6 {
		var once sync.Once
		r.journal.configure(func(f *faultyJournal) {
			f.onAppend = func(commit func() ([]persistence.Outcome, error)) (outcomes []persistence.Outcome,
				err error) {
				outcomes, err = nil, persistence.ErrAmbiguous
				interrupted := false
				once.Do(func() {
					interrupted = true
					if i%2 == 0 {
						_, _ = commit()
					}
				})
				if !interrupted {
					return commit()
				}
				return outcomes, err
			}
		})
		_, err := r.create("", 100)
		require.NoError(t, err)
		require.EqualValues(t, 2+i, r.readTally().Count)
	}
}

// TestATallyCountsExistingRecordsOnce: the first counted command counts the records stored before
// it.
func TestATallyCountsExistingRecordsOnce(t *testing.T) {
	r := newThingSystem(t)
	oldest, err := r.create("", 0)
	require.NoError(t, err)
	for range 4 {
		_, err := r.create("", 0)
		require.NoError(t, err)
	}
	_, err = r.create("", 6)
	require.NoError(t, err)
	require.Equal(t, actors.Tally{Count: 6, First: oldest}, r.readTally())
	_, err = r.create("", 6)
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
}
