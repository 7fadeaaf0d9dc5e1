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

// thing is something of which a tenant may have only so many.
type thing struct {
	Made bool `json:"made"`
}

type made struct{}

func (made) EventType() string { return "thing.made.v1" }

// makeThing counts the thing unless Max is 0; a Name can be taken once.
type makeThing struct {
	ID, Name string
	Max      int64
}

func (s *thing) Decide(_ decision.Meta, command any) (decision.Decision, error) {
	c := command.(makeThing)
	d := decision.Decision{Events: []decision.Event{made{}}, Reply: true}
	if c.Max > 0 {
		d.Tallies = []decision.Tally{{Name: "thing", ID: c.ID, Max: c.Max}}
	}
	if c.Name != "" {
		d.Onces = []decision.Once{{Scope: "name", Key: c.Name, Code: "email_taken"}}
	}
	return d, nil
}

func (s *thing) Apply(decision.Event) { s.Made = true }

// things is a rig whose actors are things of one tenant.
type things struct {
	*rig
	owner string
	next  atomic.Int64
}

func newThings(t *testing.T) *things {
	return &things{owner: stream(7), rig: newRig(t, func(c *actors.Config) {
		c.Kinds = []actors.Kind{{Name: "thing", New: func() actors.State { return new(thing) }}}
	})}
}

func (r *things) make(name string, most int64) (string, error) {
	slot, err := ident.SlotOf(r.owner)
	require.NoError(r.t, err)
	id := ident.Derive(slot, time.UnixMilli(1), fmt.Sprint("thing ", r.next.Add(1))).Format("thg")
	_, err = r.system.Ask(r.t.Context(), actors.Envelope{Kind: "thing", Stream: id, Workspace: r.owner,
		Command: makeThing{ID: id, Name: name, Max: most}})
	return id, err
}

// tally reads what is stored, and requires that it is what there is.
func (r *things) tally() actors.Tally {
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

// Half of those that come at once lose because their name is taken; the tally counts the others, up to the limit.
func TestATallyIsExactAmongLosers(t *testing.T) {
	r := newThings(t)
	const most, names = 40, 60
	var wg sync.WaitGroup
	var done, taken, over atomic.Int64
	for i := range 2 * names {
		wg.Go(func() {
			switch _, err := r.make(fmt.Sprint("name ", i%names), most); {
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
	require.EqualValues(t, most, r.tally().Count)
	r.restart()
	_, err := r.make("", most)
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
	_, err = r.make("", most+1)
	require.NoError(t, err)
	require.EqualValues(t, most+1, r.tally().Count)
}

// A commit that is interrupted counts when it was written, and only then.
func TestATallyIsExactAfterAnAmbiguousCommit(t *testing.T) {
	r := newThings(t)
	_, err := r.make("", 100)
	require.NoError(t, err)
	for i := range 6 {
		var once sync.Once
		r.journal.set(func(f *faults) {
			f.append = func(commit func() ([]persistence.Outcome, error)) (outcomes []persistence.Outcome, err error) {
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
		_, err := r.make("", 100)
		require.NoError(t, err)
		require.EqualValues(t, 2+i, r.tally().Count)
	}
}

// What a tenant had before it was counted is counted once.
func TestATallyFindsWhatWasThereBefore(t *testing.T) {
	r := newThings(t)
	oldest, err := r.make("", 0)
	require.NoError(t, err)
	for range 4 {
		_, err := r.make("", 0)
		require.NoError(t, err)
	}
	_, err = r.make("", 6)
	require.NoError(t, err)
	require.Equal(t, actors.Tally{Count: 6, First: oldest}, r.tally())
	_, err = r.make("", 6)
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
}
