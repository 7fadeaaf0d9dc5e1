// Package httpapi is Purser's REST interface: it turns a request into a message to an actor and the reply into JSON. It runs
// no query and holds no business rule; what a route needs of its caller stands in its row of the route table.
//
// # The order of checks
//
// Every request passes the same steps, the first that fails answers: framing of the HTTP message (400, 415); limit of the
// peer's address (429; not for partners); authentication (401); limits of key and workspace (429); scope, session, origin, role
// (403); what is retired or not there (410, 422), mode and verification (403); Idempotency-Key and query parameters (400). Then the
// route's handler: body (400), existence (404), state (409, 422). One table, in errors.go, says which status a fault has. An error
// that is no fault is logged with an id and answered 500 without its text.
//
// # Once
//
// A route that takes an Idempotency-Key hands the actor a claim that commits with the effect, and with it the answer, sealed
// under a key that only the holder of the Idempotency-Key can derive. A repeat is answered from it. See idempotency.go.
//
// # What is copied
//
// A fasthttp.RequestCtx and everything it returns is reused after the handler. newCall copies what a route needs; nothing
// else of the RequestCtx leaves the middleware, and it is never used as a context: every request has one of its own, with a
// deadline.
//
// # Tools for models
//
// POST /api/mcp speaks the Model Context Protocol (package mcp). A tool is a GET of the route table under another name: its scope
// is the route's, it passes the same checks and runs the same handler, and its answer is the route's, to the byte. See mcp.go; a
// new tool is a row there.
//
// One file per resource: workspaces, keys, cards, cardholders, authorizations, simulate, treasury, dashboard, members,
// webhooks, mcp. A new resource is a file with its handlers, its rows in routes() and its paths in openapi/openapi.yaml; a test
// fails when a row and the description differ.
package httpapi
