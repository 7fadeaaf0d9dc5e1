// Package reference renders an OpenAPI description as the API reference: groups of operations, each
// with its fields, answers, errors and samples in curl, Python, TypeScript and Go.
//
// A sample is a whole program. It reads addresses and credentials from the environment, so that a
// reader and a test run it unchanged:
//
//	PURSER_URL, PURSER_KEY, PURSER_SESSION        the REST interface, an API key, a session
//	PURSER_PARTNER_SIGNATURE                      the signature of a partner's report
//	PURSER_NETWORK_URL, PURSER_NETWORK_SECRET     the card network's port and its secret
//	PURSER_CARD_ID, PURSER_WORKSPACE_ID, ...      ids by the kinds of records of x-ids, and secrets
//
//	reference.go   groups and operations of a description
//	fields.go      schemas as flat lists of fields
//	samples.go     samples
package reference
