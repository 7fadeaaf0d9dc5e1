// Package actors is the runtime of Purser: it turns the pure domain packages below it into actors
// that each own one stream of events, and keeps the journal and the authorizer in step.
//
// A command passes five places. System.Ask checks its idempotency key and finds the actor in the
// directory. The entity, the one event-sourced shell of every kind, decides the command against its
// state. The shard's lane commits the decision together with the other ops that wait. The follower
// gives the authorizer the rules and credits of the events. Then the reply leaves. No reply leaves
// before its commit is durable, and none shows a rule that the authorizer has not applied.
//
// Beside that path, each shard has a relay, which carries decisions of the authorizer to the
// balance actors; one timer loop serves all shards; and reactions carry the event of one actor to
// the command of another.
//
// The package has no business rule and calls no partner. Package processes gives it the table of
// kinds (Config.Kinds) and the functions that it calls at events and timers (Hooks).
//
// It imports from protoactor-go only the actor package, with one guardian and unbounded mailboxes;
// the directory bounds the unanswered requests instead.
//
// # Files
//
//	system.go                        Config, Start, Stop and Ask, and the state of a shard
//	kinds.go, hooks.go               the tables that package processes fills
//	entity.go, directory.go          the actor of every kind, and the live actors by stream
//	orders.go                        orders that an actor loads before it decides
//	commit_meter.go                  bytes that the commands of one request commit
//	lane.go, tally.go                group commits of a shard, and exact counts of its records
//	keys.go                          idempotency keys, of which one request runs at a time
//	reads.go                         reads of records, and waits for the relay and the follower
//	reply.go                         an actor's reply as the type of its command
//	follower.go, progress.go         rules and credits to the authorizer, and waits for a position
//	relay.go, aside.go               decisions to the balances, and workspaces that the relay skips
//	reactions.go                     work that events cause elsewhere, until it is done
//	timers.go, retention.go          due timers, expiry of holds, removal of expired data
//	loops.go                         background goroutines until Stop
//	health.go, outage.go             backlogs, readiness, probes of the journal, limits on the log
//	start_check.go, secrets.go, data_keys.go
//	                                 what a start requires of the stores, the secrets and the keys
//	sealing.go, reseal.go            personal documents, and their change to another data key
//	rebuild.go, catchup.go           an authorizer filled from the journal, or brought to its heads
package actors
