// Package balance decides and folds every movement of one workspace's money: dollars, stablecoins
// and balances in other currencies. The package is pure: time and ids arrive in decision.Meta and
// in commands. One actor per workspace runs it and is the only writer of the workspace's events.
//
// Each movement is a transfer whose postings sum to zero; the package checks the sum before it
// returns the postings. A decision of this package never takes a balance below zero. Facts reported
// from outside can: a clearing, for example, or a settlement after a payout was released.
//
// The package approves no card authorization. The authorizer decides authorizations by its own
// terms, and relays its log entries to the balance in order.
//
// # Files
//
// State has the sums that all movements share. Each kind of movement has a small type around State
// (deposits, payouts, currencies, conversions, ramps, physicalCards) with its decisions and folds.
//
//	state.go                    State, its limits, its accounts and its view
//	commands.go                 commands and their replies
//	decide.go                   Decide, Apply and DecodeEvent, a row each of a command and of an event;
//	                            the invariants checked after each event
//	events.go, *_events.go      events and their stored names
//	documents.go                record kinds and the documents stored under them
//	appendjson.go               hand-written JSON of the events and documents of each card message
//	orders.go                   orders in memory, and which record a command needs
//	postings.go                 transfers of dollars and stablecoins, and their ledger lines
//	deposits.go                 bank transfers to the workspace
//	stablecoin.go               checkout credits and stablecoin deposits
//	payout_lifecycle.go         statuses of a payout and the money that each move changes
//	payouts.go                  decisions and folds of payouts
//	quotes.go                   firm exchange rates for wires abroad
//	physical_cards.go           orders of physical cards and their fees
//	currencies.go               balances in currencies, their pay-ins and transfers
//	conversion_lifecycle.go     statuses of a conversion and the money that each move changes
//	conversions.go              quotes and conversions between currencies
//	ramp_commands.go            quotes, orders and commands between dollars, USDC and wallets
//	ramp_orders.go              decisions and folds of ramp orders
//	ramp_sessions.go            orders imported from the retired ramp routes
//	relay.go                    log entries of the card authorizer
//	authorizer_credit.go        dollars that an event adds to the authorizer's funds
//	report_claim.go             claims of a partner's event id for one workspace
//	unmatched.go                reports that match nothing
package balance
