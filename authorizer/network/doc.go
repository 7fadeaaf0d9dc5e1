// Package network is the card network's port: four routes over HTTP behind a shared secret. It
// parses a message, submits it to a hold.Decider and writes the answer. The package itself
// allocates nothing per message.
//
// A message is refused before the decision when its secret is invalid, when its framing is
// ambiguous, or when its body is not a strict message of its route (400, with the field named). An
// authorization that has an id is declined instead, whatever its other fields hold. After the
// process was stopped, the age of each message counts: see pulse.
//
//	server.go   routes, framing, refusals and the JSON of answers
//	scan.go     parses a body into a hold.Message, by the fields of its route
//	json.go     JSON tokens, parsed in place; skip.go skips values that no field takes
//	secret.go   the valid secrets, compared in constant time
//	frozen.go   detects stops of the process, and the age of messages after one
package network
