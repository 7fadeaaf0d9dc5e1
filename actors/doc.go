// Package actors is the runtime of Purser: it turns the pure domain packages below it (user, workspace, card, cardholder,
// balance) into actors that each own one stream of events, and keeps the two stores in step.
//
// A command goes through five places. System.Ask checks its idempotency key and finds the actor in the directory; the entity, the
// one event-sourced shell for every kind, decides it against the state it holds; the shard's lane commits it together with
// whatever else waits; the follower tells the authorizer what it must know (rules, credits); and only then does the reply leave.
// Nothing is answered before it is durable, and no answer reports a rule that the authorizer has not applied.
//
// Beside that path, each shard has a relay (decisions of the authorizer go to the balance actors), one timer loop serves all
// shards, and reactions carry the event of one actor to the command of another.
//
// The package holds no business rule. It imports from protoactor-go only the actor package, with one guardian and unbounded
// mailboxes; the bound is the directory's count of unanswered requests.
package actors
