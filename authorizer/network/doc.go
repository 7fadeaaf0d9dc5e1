// Package network is the card network's port: four routes over HTTP behind a shared secret. It
// reads a message, hands it to a hold.Decider and writes the answer, without an allocation of its
// own.
//
// A message is refused before it is decided when its peer has no valid secret, when its framing is
// ambiguous, or when its body is not strictly a message of its route (400, with the field named).
// After a stop of the process the age of each message counts: see pulse.
//
//	server.go   the routes, framing, refusals and the JSON of answers
//	scan.go     a body becomes a hold.Message: which fields a route takes, and what each may hold
//	json.go     the tokens of JSON, read in place; skip.go reads over unknown members
//	secret.go   the valid secrets, compared in constant time
//	frozen.go   when the process stopped, and how long a message waited in its socket meanwhile
package network
