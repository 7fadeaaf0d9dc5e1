package card

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Terms is the complete rule by which a swipe is authorized. Every event of a card carries it, so
// that a follower needs only the newest event. Limits are in cents. A null allowlist allows
// everything, an empty one nothing.
type Terms struct {
	Token                string      `json:"token"`
	Card                 string      `json:"card"`
	Workspace            string      `json:"workspace"`
	State                string      `json:"state"`
	MonthlyLimitUsdCents money.Cents `json:"monthlyLimitUsdCents"`
	PerTxnLimitUsdCents  money.Cents `json:"perTxnLimitUsdCents"`
	AllowedMccs          *[]string   `json:"allowedMccs"`
	AllowedMerchants     *[]string   `json:"allowedMerchants"`
}

// termsOf returns the terms that a card event carries; false for an event of another package.
func termsOf(e decision.Event) (Terms, bool) {
	switch e := e.(type) {
	case Minted:
		return e.Terms, true
	case Frozen:
		return e.Terms, true
	case Unfrozen:
		return e.Terms, true
	case Terminated:
		return e.Terms, true
	case LimitsChanged:
		return e.Terms, true
	case ScopesChanged:
		return e.Terms, true
	}
	return Terms{}, false
}

// validate fails for terms that make no rule, so that the authorizer never follows a damaged event:
// a wrong token, id, state, limit or allowlist. DecodeEvent calls it for each stored event, and
// mintCard for a new card, where a failure panics.
func (t Terms) validate() error {
	if _, err := ident.ParseToken([]byte(t.Token)); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	if _, err := ident.Parse(ident.Card, t.Card); err != nil {
		return fmt.Errorf("card: %w", err)
	}
	if _, err := ident.Parse(ident.Workspace, t.Workspace); err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	if _, known := networkState(t.State); !known {
		return fmt.Errorf("state %q", t.State)
	}
	if err := checkLimits(&t.MonthlyLimitUsdCents, &t.PerTxnLimitUsdCents); err != nil {
		return err
	}
	return checkAllowlists(t.AllowedMccs, t.AllowedMerchants)
}

// validate fails with invalid_body and the field's name for a wrong holder, limit or allowlist.
func (c Mint) validate() error {
	if c.HolderKind != "agent" && c.HolderKind != "human" {
		return invalidBody("holderKind: agent or human")
	}
	if n := utf8.RuneCountInString(c.HolderLabel); n < 1 || n > MaxLabel {
		return invalidBody("holderLabel: 1 to %d characters", MaxLabel)
	}
	if err := checkLimits(&c.MonthlyLimitUsdCents, &c.PerTxnLimitUsdCents); err != nil {
		return err
	}
	return checkAllowlists(c.AllowedMccs, c.AllowedMerchants)
}

// terms returns the first terms of the card. They share no memory with the command.
func (c Mint) terms() Terms {
	return Terms{
		Token: c.Token, Card: c.ID, Workspace: c.Workspace, State: StateActive,
		MonthlyLimitUsdCents: c.MonthlyLimitUsdCents, PerTxnLimitUsdCents: c.PerTxnLimitUsdCents,
		AllowedMccs: cloneList(c.AllowedMccs), AllowedMerchants: cloneList(c.AllowedMerchants),
	}
}

// validate fails with invalid_body for an update that changes nothing, or for a wrong state, limit
// or allowlist.
func (c Update) validate() error {
	if c.State == nil && c.changesNoRule() {
		return invalidBody("nothing to change")
	}
	if c.State != nil {
		if _, known := networkState(*c.State); !known {
			return invalidBody("state: active, frozen or terminated")
		}
	}
	if err := checkLimits(c.MonthlyLimitUsdCents, c.PerTxnLimitUsdCents); err != nil {
		return err
	}
	return checkAllowlists(c.AllowedMccs.Value, c.AllowedMerchants.Value)
}

// checkLimits fails with invalid_body and the field's name for a limit that is not 1 to MaxLimit
// cents. A nil limit passes.
func checkLimits(monthly, perTxn *money.Cents) error {
	for _, limit := range []struct {
		field string
		cents *money.Cents
	}{{"monthlyLimitUsdCents", monthly}, {"perTxnLimitUsdCents", perTxn}} {
		if limit.cents != nil && (*limit.cents <= 0 || *limit.cents > MaxLimit) {
			return invalidBody("%s: 1 to %d", limit.field, MaxLimit)
		}
	}
	return nil
}

func checkAllowlists(mccs, merchants *[]string) error {
	if err := checkEach("allowedMccs", mccs, isMCC, "four digits"); err != nil {
		return err
	}
	return checkEach("allowedMerchants", merchants, isMerchant, fmt.Sprintf("1 to %d characters", MaxMerchant))
}

// onlyTerminates reports whether the update only terminates the card, which a terminated card
// accepts.
func (c Update) onlyTerminates() bool {
	return c.State != nil && *c.State == StateTerminated && c.changesNoRule()
}

func (c Update) changesNoRule() bool {
	return c.MonthlyLimitUsdCents == nil && c.PerTxnLimitUsdCents == nil && !c.AllowedMccs.Set &&
		!c.AllowedMerchants.Set
}

// changeEvents returns an event for each difference, the state last, so that the final state is
// never published with an older rule. It returns none for an update to the present values.
func (s *State) changeEvents(c Update, at decision.Stamp) []decision.Event {
	var events []decision.Event
	terms := s.Terms
	if c.MonthlyLimitUsdCents != nil {
		terms.MonthlyLimitUsdCents = *c.MonthlyLimitUsdCents
	}
	if c.PerTxnLimitUsdCents != nil {
		terms.PerTxnLimitUsdCents = *c.PerTxnLimitUsdCents
	}
	if terms.MonthlyLimitUsdCents != s.MonthlyLimitUsdCents || terms.PerTxnLimitUsdCents != s.PerTxnLimitUsdCents {
		events = append(events, LimitsChanged{terms, at})
	}
	if c.AllowedMccs.Set {
		terms.AllowedMccs = cloneList(c.AllowedMccs.Value)
	}
	if c.AllowedMerchants.Set {
		terms.AllowedMerchants = cloneList(c.AllowedMerchants.Value)
	}
	if !sameList(terms.AllowedMccs, s.AllowedMccs) || !sameList(terms.AllowedMerchants, s.AllowedMerchants) {
		events = append(events, ScopesChanged{terms, at})
	}
	if c.State != nil && *c.State != s.State {
		terms.State = *c.State
		events = append(events, stateEvent(terms, at))
	}
	return events
}

// RuleOf converts an event into the authorizer's rule; version is the event's version in the card's
// stream. ok is false for an event of another package. The event must come from Decide or
// DecodeEvent, which have validated its terms; other terms panic.
func RuleOf(e decision.Event, version uint64) (rule hold.Rule, ok bool) {
	t, ok := termsOf(e)
	if !ok {
		return hold.Rule{}, false
	}
	token, err := ident.ParseToken([]byte(t.Token))
	mustBeValid(err)
	card, err := ident.Parse(ident.Card, t.Card)
	mustBeValid(err)
	workspace, err := ident.Parse(ident.Workspace, t.Workspace)
	mustBeValid(err)
	state, known := networkState(t.State)
	if !known {
		panic("BUG: card state " + t.State)
	}
	return hold.Rule{
		Token: token, Card: card, Workspace: workspace, Version: version, State: state,
		PerTxnCents: t.PerTxnLimitUsdCents, MonthCents: t.MonthlyLimitUsdCents,
		MCCs: mccsOf(t.AllowedMccs), Merchants: merchantsOf(t.AllowedMerchants),
	}, true
}

// mccsOf converts an allowlist of merchant category codes to numbers; nil stays nil. An item that
// is no number panics.
func mccsOf(list *[]string) []uint16 {
	if list == nil {
		return nil
	}
	mccs := make([]uint16, 0, len(*list))
	for _, item := range *list {
		mcc, err := strconv.ParseUint(item, 10, 16)
		mustBeValid(err)
		mccs = append(mccs, uint16(mcc))
	}
	return mccs
}

// merchantsOf normalises an allowlist of merchants as the authorizer compares them; nil stays nil.
func merchantsOf(list *[]string) []string {
	if list == nil {
		return nil
	}
	merchants := make([]string, 0, len(*list))
	for _, item := range *list {
		merchants = append(merchants, hold.NormalizeMerchant(item))
	}
	return merchants
}
