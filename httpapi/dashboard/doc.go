// Package dashboard renders the pages on which a person uses Purser: sign-up, cards, swipes,
// dollars, checkout links and keys.
//
// The dashboard is a client of the REST interface. A page reads through GET operations of the
// interface, and a form runs one operation, both as the signed-in user and in the same process. So
// people and programs reach the same handler, and one table of roles and scopes permits them. The
// package holds no business rule, and no state but the counts of the navigation.
//
// Every page works without its script: links navigate, forms post, and the address holds the page's
// whole state. Each page is one file, named for its resource. A page consists of blocks (blocks.go)
// that one template draws, so no page has HTML of its own.
package dashboard
