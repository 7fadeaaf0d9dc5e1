// Package reports applies the reports of partners: statements, sent by a partner, of what became of
// money. The table in types.go has a row for each type of report. Processor has the protocol that
// all types share. The caller has verified the partner's signature.
//
// A report states a fact, so it is not refused for its content. A report that matches nothing (an
// unknown deposit, an unsupported type) is stored as unmatched. The one error is that of a store
// that does not answer, because a later delivery can succeed. The balance applies an event id once,
// and claim binds the id to one target.
package reports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// Report is a partner's report. Type determines the format of Data.
type Report struct {
	ID   string         `json:"id"`
	Type string         `json:"type"`
	Data jsontext.Value `json:"data"`

	body []byte // as sent
}

// Parse parses the body of a report. The report keeps the body. It fails for a body that is not
// JSON of a report.
func Parse(body []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(body, &r); err != nil {
		return Report{}, err
	}
	r.body = body
	return r, nil
}

// BelongsElsewhere reports whether the report's type is accepted on another channel alone.
func (r *Report) BelongsElsewhere(channel Channel) bool {
	row, known := types[r.Type]
	return known && row.channel != channel
}

// Partners that send reports, by the names of their claims.
const (
	Bank       = balance.ScopeBank
	Stablecoin = balance.ScopeStablecoin
	Ramp       = balance.ScopeRamp
)

// Partners lists the partners that send reports. The caller owns the list. The settings read a
// secret for each of them, and the HTTP server makes their routes.
func Partners() []string { return []string{Bank, Ramp, Stablecoin} }

// Channel is an address of Purser to which a partner delivers reports on one topic.
type Channel struct{ Partner, Topic string }

// Channels of the partners.
var (
	BankTransfers      = Channel{Bank, "transfers"}
	StablecoinDeposits = Channel{Stablecoin, "deposits"}
	Onramps            = Channel{Ramp, "onramps"}
	Offramps           = Channel{Ramp, "offramps"}
)

// Actors is the part of the runtime that a Processor uses.
type Actors interface {
	Ask(ctx context.Context, e actors.Envelope) (reply any, err error)
	Find(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error)
}

// Processor applies reports. It is safe for concurrent use.
type Processor struct {
	actors Actors
	log    *slog.Logger
}

// NewProcessor returns a processor over the actors. The HTTP server makes one at its start.
func NewProcessor(a Actors, log *slog.Logger) *Processor { return &Processor{a, log} }

// Outcome is what became of a report.
type Outcome struct {
	Unmatched bool // the report matched nothing and is stored
	Late      bool // a payout or a conversion settled after its money was released: an alarm
}

// Process applies a report, or stores it as unmatched. After nil the outcome is durable, and a
// repeat of the report changes nothing. It fails with unavailable, outcome_unknown or internal, or
// with the store's error; the partner then sends the report again.
func (p *Processor) Process(ctx context.Context, channel Channel, r Report) (Outcome, error) {
	late, err := p.apply(ctx, channel, r)
	if matchesNothing(err) {
		return Outcome{Unmatched: true}, p.keepUnmatched(ctx, channel.Partner, r)
	}
	return Outcome{Late: late}, err
}

// apply sends a report to its balance, once: the report's id is first claimed for its target. It
// fails with not_found for a type of another channel, and with the faults of the reader, of claim
// and of the balance.
func (p *Processor) apply(ctx context.Context, channel Channel, r Report) (late bool, err error) {
	row := types[r.Type]
	if row.channel != channel {
		return false, fault.New(fault.NotFound, "")
	}
	to, err := row.read(ctx, p, r)
	if err != nil {
		return false, err
	}
	if err := p.claim(ctx, channel.Partner, r.ID, to.claimedFor); err != nil {
		return false, err
	}
	reply, err := p.actors.Ask(ctx, actors.Envelope{Kind: actors.KindBalance, Stream: to.workspace,
		Workspace: to.workspace, Command: to.command})
	if err != nil || !isLate(reply) {
		return false, err
	}
	p.log.Error("a partner has moved money that was given back before", "report", r.Type, "id", to.claimedFor)
	return true, nil
}

// isLate reports whether a payout or a conversion settled after its money was released. apply logs
// an alarm then.
func isLate(reply any) bool {
	switch reported := reply.(type) {
	case balance.ReportedPayout:
		return reported.Late
	case balance.ReportedConversion:
		return reported.Late
	}
	return false
}

// matchesNothing reports whether an error is permanent: the report can never be applied. Faults
// that a repeat may cure, and errors that are no faults, are not permanent.
func matchesNothing(err error) bool {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return false
	}
	switch f.Code {
	case fault.Unavailable, fault.OutcomeUnknown, fault.Internal:
		return false
	}
	return true
}

// claim binds a report's id to a target before the report is applied there. After a crash in
// between, the partner's repeat finds the claim and is applied under it. It fails with
// duplicate_mismatch for an id that is bound to another target, which matches nothing, and with the
// actor's faults. apply calls it.
func (p *Processor) claim(ctx context.Context, partner, id, target string) error {
	reply, err := p.askSystem(ctx, balance.ClaimReport{EventID: id, Partner: partner, Target: target})
	if err != nil {
		return err
	}
	if first, repeated := reply.(actors.Replayed); repeated && string(first.Answer) != target {
		return fault.New(fault.DuplicateMismatch, "")
	}
	return nil
}

// keepUnmatched stores a report that matches nothing in the system workspace. It fails when the
// store does, and with a plain error when the report cannot be stored at all.
func (p *Processor) keepUnmatched(ctx context.Context, partner string, r Report) error {
	_, err := p.askSystem(ctx, balance.KeepUnmatched{EventID: r.ID, Partner: partner, Type: r.Type, Body: r.body})
	if f, ok := errors.AsType[*fault.Error](err); ok && matchesNothing(err) {
		return fmt.Errorf("a report could not even be kept: %s", f.Code)
	}
	if err != nil {
		return err
	}
	p.log.Warn("partner report matched nothing", "partner", partner)
	return nil
}

// askSystem sends a command to the balance of the system workspace, which stores claims and
// unmatched reports. It fails as System.Ask does.
func (p *Processor) askSystem(ctx context.Context, command any) (any, error) {
	system := ident.System.Format(ident.Workspace)
	return p.actors.Ask(ctx, actors.Envelope{Kind: actors.KindBalance, Stream: system, Workspace: system,
		Command: command})
}
