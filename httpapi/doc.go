// Package httpapi serves Purser's REST interface: it turns a request into a message to an actor and
// the reply into JSON, and shows records that package query reads. It runs no query of its own and
// holds no business rule. A route's row in the route table states the checks that a caller must
// pass.
//
// # The order of checks
//
// Every request passes the same steps, and the first that fails answers: framing of the HTTP
// message (400, 415); limit of the peer's address (429; not for partners); authentication (401);
// limits of key and workspace (429); scope, session, origin, role (403); retired and missing
// capabilities (410, 422), mode and verification (403); Idempotency-Key and query parameters (400);
// bytes of the last minute (429). Then the route's handler: body (400), existence (404), state
// (409, 422). One table, in errors.go, says which status a fault has. An error that is no fault is
// logged with an id and answered 500 without its text.
//
// # Idempotency keys
//
// A route that takes an Idempotency-Key hands the actor a claim that commits with the effect. The
// claim carries the answer, sealed under a key that only the holder of the Idempotency-Key can
// derive. A repeated request gets the stored answer. See idempotency.go.
//
// # Memory
//
// fasthttp reuses a RequestCtx, and all that it returns, after the handler. newCall copies the
// parts that a route needs; nothing else of the RequestCtx leaves the middleware. The RequestCtx is
// never used as a context: every request has a context of its own, with a deadline.
//
// # Tools for models
//
// POST /api/mcp speaks the Model Context Protocol (package mcp). A tool is a GET of the route table
// under another name: it has the route's scope, passes the same checks, runs the same handler and
// returns the same bytes. A new tool is a row in mcp.go.
//
// The pages of the dashboard (package dashboard) read and act through the same table, as the
// session of the browser. dashboard_pages.go is the connection.
//
// # Files
//
// A group of resources has one type of handlers, and each resource has one file with its handlers
// and its rows of the route table:
//
//	cardHandlers        cards, physical_cards, cardholders, authorizations, simulate
//	treasuryHandlers    treasury, statements, counterparties, payouts, payout_quotes, payments
//	currencyHandlers    currency_accounts, conversions
//	rampHandlers        ramp, ramp_wallets
//	checkoutHandlers    checkout, hosted, receipt, guide_pages, reference_pages
//	workspaceHandlers   workspaces, keys, members, invitations
//	sessionHandlers     dashboard, signin
//	agentHandlers       agents, intents
//	endpointHandlers    webhook_endpoints
//	reportHandlers      partner_reports
//	toolHandlers        mcp
//	pageHandlers        dashboard_pages
//
// All of them embed edge (edge.go), which checks requests and writes answers: auth, session, body,
// decode, limits, asks, idempotency, lists, records, errors, requests. server.go and routes.go put
// the groups together. A new resource is a file with its handlers and rows in one of the groups,
// and its paths in openapi/openapi.yaml; a test fails when a row and the description differ.
package httpapi
