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
package actors
