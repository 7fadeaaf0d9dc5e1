package balance

import (
	"fmt"
	"net/url"
	"slices"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// maxHostedURL is the greatest length of the URL of a session's page, in bytes.
const maxHostedURL = 2048

// Scopes in which sessions are claimed, once for ever: by their import, and by the report that ends
// them. Sessions are records only, so the state cannot detect a repeat.
const (
	scopeRampImport  = "ramp_session_import"
	scopeRampSession = "ramp_session"
)

func (r *RampSession) isOpen() bool { return r.Status == RampCreated || r.Status == RampProcessing }

// Check fails with invalid_body and the field's name for a session that cannot belong to the
// workspace.
func (r *RampSession) Check(workspace string) error {
	id, err := ident.Parse(ident.RampSession, r.ID)
	hosted, errURL := url.Parse(r.HostedURL)
	_, status := rampMoves[r.Status]
	bad := ""
	switch {
	case err != nil || id.Slot() != slotOf(workspace):
		bad = "id: an rs_ id of the workspace"
	case r.Direction != RampOn && r.Direction != RampOff:
		bad = "direction: onramp or offramp"
	case !status:
		bad = "status: created, processing, completed or failed"
	case r.AmountCents < 1 || r.AmountCents > money.MaxAmount:
		bad = fmt.Sprintf("amountCents: 1 to %d", money.MaxAmount)
	case errURL != nil || len(r.HostedURL) > maxHostedURL || hosted.Host == "" ||
		!slices.Contains([]string{"http", "https"}, hosted.Scheme):
		bad = fmt.Sprintf("hostedUrl: an http or https URL of at most %d bytes", maxHostedURL)
	case r.CreatedAt.IsZero():
		bad = "createdAt: required"
	case r.UpdatedAt.Before(r.CreatedAt.Time):
		bad = "updatedAt: not before createdAt"
	default:
		return nil
	}
	return fault.New(fault.InvalidBody, bad)
}

// importRampSession stores a session of an earlier system, once. It fails with Check's fault.
func (b ramps) importRampSession(m decision.Meta, c ImportRampSession) (decision.Decision, error) {
	if err := c.Session.Check(c.Workspace); err != nil {
		return decision.Decision{}, err
	}
	session := c.Session
	session.HostedURL = "" // the URL opens the page without a login
	return decision.Decision{
		Events: []decision.Event{RampSessionImported{Workspace: c.Workspace, Session: session,
			At: decision.StampOf(m.At)}},
		Records: []decision.Record{{Kind: RecordRampSession, Parent: c.Session.Direction, ID: c.Session.ID,
			Document: c.Session}},
		Onces: []decision.Once{{Scope: scopeRampImport, Key: c.Session.ID}},
	}, nil
}

// reportRampSession credits a completed on-ramp and gives a failed off-ramp back; the other
// outcomes were booked before the import. It fails with not_found, ramp_conflict for an ended
// session, or limit_exceeded. Of two reports decided on the same record the second fails as
// unavailable, so that the partner sends it again.
func (b ramps) reportRampSession(m decision.Meta, c ReportRamp) (decision.Decision, error) {
	r := *c.Session
	switch {
	case r.ID != c.ID:
		return decision.Decision{}, fault.New(fault.NotFound, "")
	case r.Status == c.Outcome:
		return decision.Decision{}, nil
	case !r.isOpen():
		return decision.Decision{}, fault.New(fault.RampConflict,
			fmt.Sprintf("a session that is %s cannot be %s", r.Status, c.Outcome))
	}
	e := RampSessionMoved{Workspace: b.Workspace, Session: r.ID, Direction: r.Direction, From: r.Status, To: c.Outcome,
		AmountCents: r.AmountCents, EventID: c.EventID, Postings: []Posting{}, At: decision.StampOf(m.At)}
	r.Status, r.UpdatedAt = e.To, e.At
	d := decision.Decision{Records: []decision.Record{{Kind: RecordRampSession, Parent: r.Direction, ID: r.ID,
		Document: r}}}
	if source := sessionCredit(r); source != "" {
		t := transfer{workspace: b.Workspace, account: AccountStablecoin, counterpart: AccountRamp,
			cents:  r.AmountCents,
			source: source, reference: r.ID, cause: "ramp/session/" + r.ID, at: m.At}
		if !b.canCredit(t) {
			return decision.Decision{}, balanceFull()
		}
		e.Postings = t.balancedPostings()
		d.Records = append(d.Records, t.ledgerRecord())
	}
	d.Events = []decision.Event{e}
	d.Onces = append(rampClaim(m, c.EventID),
		decision.Once{Scope: scopeRampSession, Key: r.ID, Code: string(fault.Unavailable),
			Message: "The session is changing; nothing changed."})
	return d, nil
}

// sessionCredit is the ledger source of the credit that ends a session; "" for no credit.
func sessionCredit(r RampSession) string {
	switch r.Direction + " " + r.Status {
	case RampOn + " " + RampCompleted:
		return sourceOnramp
	case RampOff + " " + RampFailed:
		return sourceRampReversal
	}
	return ""
}

func (b ramps) applyRampSessionMoved(e RampSessionMoved) {
	b.Workspace = e.Workspace
	b.postRamp(e.Postings)
}
