// Package processes has the processes of Purser: the conversations of the runtime in package actors
// with banks, desks for foreign exchange, ramps, card issuers, blockchains and webhook receivers,
// and the work that spans several actors.
//
// Start starts the runtime with the product's processes. A process begins with a reaction to an
// event, with an actor's answer to its timer, or with a call of a handler in httpapi. It holds no
// state that a crash may lose: its progress is in the events and records of the actors, and an
// outside call that may have been lost is asked about or repeated under the same id.
//
// Each process is a struct with the few dependencies that it uses. The runtime is known to all of
// them as Runtime. product.go makes the structs, and reactions.go lists which event starts which
// process.
package processes
