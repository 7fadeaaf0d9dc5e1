package processes

import (
	"time"

	"purser/actors"
	"purser/actors/watch"
)

// Listener receives what the runtime and the processes do, for metrics. Its methods must return at
// once.
type Listener interface {
	actors.Listener
	// Posted is called for each attempt to deliver a webhook, with the outcome: "status_2xx" or
	// another class, or the failure that kept the receiver from answering.
	Posted(outcome string, took time.Duration)
	// Deliveries is called every Config.HousekeepEvery with the number of pending deliveries.
	Deliveries(pending int)
	// Watched is called after each step of a chain's watcher; err is the step's.
	Watched(chain string, p watch.Progress, err error)
}

// silent is the Listener of a Config without one.
type silent struct{}

func (silent) Committed(int, time.Duration, error)   {}
func (silent) Relayed(int, time.Time)                {}
func (silent) Reacted(string, error)                 {}
func (silent) Fired(string, error)                   {}
func (silent) Posted(string, time.Duration)          {}
func (silent) Deliveries(int)                        {}
func (silent) Watched(string, watch.Progress, error) {}
