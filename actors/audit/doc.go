// Package audit adds up every amount of Purser from the raw events of the journal. It compares the
// sums with the records that are shown, with the authorizer's terms and, if there is one, with the
// book.
//
// The audit decodes events as JSON into small structs of its own and folds them itself. It calls
// neither a domain package nor a decision of the authorizer, so that it cannot repeat a fault in
// their code. It shares only the checked addition of package money and the normalization of
// merchant names. It changes nothing.
//
// On a running server the stores change while they are read. Each look therefore reads snapshots:
// of the book, then of the journal, then of the authorizer, so that each has everything that the
// ones before it refer to. A snapshot may show an operation in progress, such as a reservation
// whose order is not in the journal yet. So the audit reads a shard with a difference again, up to
// maxLooks times, and reports only a difference that the last two looks show.
//
// # Files
//
//	audit.go                the sources, Run and its report
//	report.go               the report as a text
//	pace.go                 pauses of an audit beside a running server
//	engine_source.go        the authorizer's engine as a source
//	totals.go               sums of one shard, and the folds of deposits, postings and cards
//	kinds.go                each kind of actor: its comparison, and the events of its tallies
//	entries.go              the stored structs, and the folds of the authorizer's log
//	payouts.go, physical_cards.go, checkout.go, currencies.go, conversions.go, ramp.go
//	                        folds and comparisons of one movement each
//	checkout_link.go        the terms and payments of a checkout session
//	rules.go                the terms of cards against the rules of the authorizer
//	compare_records.go      records against the sums
//	compare_authorizer.go   the authorizer against the sums
//	compare_book.go         the book against the events
package audit
