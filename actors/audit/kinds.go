package audit

import (
	"context"
	"maps"
	"slices"

	"purser/persistence"
)

// stateKind is the audit of one kind of actor. The state of each of its streams is a record of the
// stream's kind and id.
type stateKind struct {
	compare func(*recordCheck, *persistence.Record) error // beside the version; nil compares no more
	tallies []tallyEvents
}

// tallyEvents are the event types that change one tally of the workspace by one, "" for none. The
// events are in streams of the tally's kind of actor.
type tallyEvents struct{ record, more, less string }

// stateKinds has a row for each kind of actor.
var stateKinds = map[string]stateKind{
	"user":      {},
	"address":   {},
	"workspace": {},
	"agent":     {tallies: []tallyEvents{{record: "tally_agent", more: "agent.registered.v1"}}},
	"card": {
		compare: (*recordCheck).cardRecord,
		tallies: []tallyEvents{{record: "tally_card", more: "card.minted.v1"}},
	},
	"cardholder": {tallies: []tallyEvents{
		{record: "tally_cardholder", more: "cardholder.created.v1"},
		{record: "tally_cardholder_active", more: "cardholder.enrolled.v1"},
	}},
	"checkout": {
		compare: func(k *recordCheck, r *persistence.Record) error { return k.checkoutRecord(r) },
		tallies: []tallyEvents{{record: tallyOpenLinks}}, // linkTallies counts it
	},
	"counterparty": {tallies: []tallyEvents{{record: "tally_counterparty", more: "counterparty.saved.v1"}}},
	"derivation":   {},
	"ramp":         {compare: func(k *recordCheck, r *persistence.Record) error { return k.ramp.rampRecord(r) }},
	"balance":      {compare: (*recordCheck).balanceRecord},
	"webhook": {tallies: []tallyEvents{
		{record: "tally_webhook_endpoint", more: "webhook.registered.v1", less: "webhook.removed.v1"},
	}},
}

// tally is the number of things of one kind that a workspace has, and the id of the first.
type tally struct {
	Count int64  `json:"count"`
	First string `json:"first"`
}

// countTallies applies an event to the workspace's tallies, the stored counts that limits use.
func (b *shardTotals) countTallies(e *persistence.Event) {
	for _, t := range stateKinds[e.Kind].tallies {
		switch {
		case e.Type == "": // is no event of a tally
		case e.Type == t.more:
			b.incrementTally(t.record, e)
		case e.Type == t.less:
			b.decrementTally(t.record, e)
		}
	}
}

func (b *shardTotals) incrementTally(kind string, e *persistence.Event) {
	t := b.tallies[stream{kind, e.Workspace}]
	if t.First == "" {
		t.First = e.Stream
	}
	t.Count++
	b.tallies[stream{kind, e.Workspace}] = t
}

func (b *shardTotals) decrementTally(kind string, e *persistence.Event) {
	t := b.tallies[stream{kind, e.Workspace}]
	t.Count--
	b.tallies[stream{kind, e.Workspace}] = t
}

// compareTallies compares the counts that limits use with the events; differences are findings. It
// fails when the journal cannot be read.
func (k *recordCheck) compareTallies(ctx context.Context, journal persistence.Snapshot) error {
	for _, kind := range slices.Sorted(maps.Keys(stateKinds)) {
		for _, t := range stateKinds[kind].tallies {
			if err := k.compareTally(ctx, journal, t.record); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareTally compares the records of one tally with the events. It fails when the journal cannot
// be read.
func (k *recordCheck) compareTally(ctx context.Context, journal persistence.Snapshot, kind string) error {
	want := map[string]tally{}
	for of, t := range k.tallies {
		if of.kind == kind {
			want[of.id] = t
		}
	}
	return matchAll(ctx, k.shardTotals, journal, kind, want)
}
