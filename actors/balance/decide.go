package balance

import (
	"fmt"
	"strings"

	"purser/actors/decision"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Decide returns the events, reply, records, claims and timers that follow from a command, and
// changes no state. Its errors are faults (the type of the command lists the codes), except those
// of Relay. An unknown command panics. decision.Read on the zero State shows a balance of zero.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	d, err := s.decideCommand(m, command)
	s.bookLines(m, d.Records)
	return d, err
}

// decideCommand calls the decision function of the command's type and returns its result and its
// fault. It panics for an unknown command and for a command of another workspace.
func (s *State) decideCommand(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case CreateDeposit:
		s.mustOwn(c.Workspace)
		return deposits{s}.createDeposit(m, c)
	case SettleDeposit:
		return deposits{s}.settleDeposit(m, c)
	case ReceiveDeposit:
		s.mustOwn(c.Workspace)
		return deposits{s}.receiveDeposit(m, c)
	case CreatePayout:
		s.mustOwn(c.Workspace)
		return payouts{s}.createPayout(m, c)
	case DirectPayout:
		return payouts{s}.directPayout(m, c)
	case SubmitPayout:
		return payouts{s}.submitPayout(m, c)
	case AnswerPayout:
		return payouts{s}.answerPayout(m, c), nil
	case ReportPayout:
		return payouts{s}.reportPayout(m, c)
	case LapsePayout:
		return payouts{s}.lapsePayout(m, c), nil
	case decision.Fire:
		return s.decideTimer(m, c.Key), nil
	case LockQuote:
		s.mustOwn(c.Workspace)
		return payouts{s}.lockQuote(m, c)
	case OrderPhysicalCard:
		s.mustOwn(c.Workspace)
		return physicalCards{s}.orderPhysical(m, c)
	case RefusePhysicalCard:
		return physicalCards{s}.refusePhysical(m, c)
	case CreditCheckout:
		s.mustOwn(c.Workspace)
		return s.creditCheckout(m, c)
	case ReceiveStablecoin:
		s.mustOwn(c.Workspace)
		return s.receiveStablecoin(m, c)
	case Relay:
		return s.relayEntries(m, c)
	case ClaimReport:
		s.mustOwn(ident.System.Format(ident.Workspace))
		return claimReport(m, c)
	case KeepUnmatched:
		s.mustOwn(ident.System.Format(ident.Workspace))
		return s.keepUnmatched(m, c)
	case decision.Read:
		return decision.Decision{Reply: s.View(m.At)}, nil
	case Onboard, OpenCurrency, AnnouncePayin, ReportCurrency, ReadCurrencies:
		return currencies{s}.decideCurrency(m, command)
	case QuoteConversion, CreateConversion, SubmitConversion, AnswerConversion, ReportConversion, LapseConversion:
		return conversions{s}.decideConversion(m, command)
	case QuoteRamp, CreateRampOrder, AcceptRampOrder, RefuseRampOrder, ReportRamp, ImportRampSession:
		return ramps{s}.decideRamp(m, command)
	}
	panic(fmt.Sprintf("BUG: balance command %T", command))
}

// timers has what a fired timer does, by the part of its key before the order's id.
var timers = map[string]func(s *State, m decision.Meta, key, id string) decision.Decision{
	timerOpen:       currencyOpened,
	timerPayin:      payinDue,
	timerUnsent:     conversionUnsent,
	timerDeskAnswer: conversionUnanswered,
	timerDeskLapse:  conversionOverdue,
	timerAnswer:     payoutUnanswered,
	timerLapse:      payoutOverdue,
	timerRamp:       rampDue,
}

// decideTimer decides a fired timer. It panics for a key that no movement sets.
func (s *State) decideTimer(m decision.Meta, key string) decision.Decision {
	name, id, _ := strings.Cut(key, "/")
	fired := timers[name+"/"]
	if fired == nil {
		panic("BUG: timer of a balance " + key)
	}
	return fired(s, m, key, id)
}

func (s *State) mustOwn(workspace string) {
	if s.Workspace != "" && s.Workspace != workspace {
		panic("BUG: command for the balance of another workspace")
	}
}

// Apply folds an event into the state. A stored state is loaded from its record, not from events.
// It panics for an unknown event, and for an event that breaks a sum of the state.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case DepositCreated:
		deposits{s}.applyDepositCreated(e)
	case DepositSettled:
		deposits{s}.applyDepositSettled(e)
	case DepositReceived:
		deposits{s}.applyDepositReceived(e)
	case PayoutCreated:
		payouts{s}.applyPayoutCreated(e)
	case PayoutMoved:
		payouts{s}.applyPayoutMoved(e)
	case FXQuoteLocked:
		payouts{s}.applyQuoteLocked(e)
	case PhysicalCardOrdered:
		physicalCards{s}.applyPhysicalOrdered(e)
	case PhysicalCardRefused:
		physicalCards{s}.applyPhysicalRefused(e)
	case CheckoutCredited:
		s.applyStablecoin(e.Workspace, e.AmountUsdCents)
	case StablecoinReceived:
		s.applyStablecoin(e.Workspace, e.AmountUsdCents)
	case CurrenciesOnboarded:
		s.Workspace, s.Onboarded = e.Workspace, true
	case CurrencyOpened:
		currencies{s}.applyCurrencyOpened(e)
	case CurrencyChanged:
		currencies{s}.applyCurrencyChanged(e)
	case PayinAnnounced:
		currencies{s}.applyPayinAnnounced(e)
	case PayinArrived:
		currencies{s}.applyPayinArrived(e)
	case ConversionQuoted:
		conversions{s}.applyConversionQuoted(e)
	case ConversionCreated:
		conversions{s}.applyConversionCreated(e)
	case ConversionMoved:
		conversions{s}.applyConversionMoved(e)
	case RampQuoted:
		ramps{s}.applyRampQuoted(e)
	case RampOrdered:
		ramps{s}.applyRampOrdered(e)
	case RampMoved:
		ramps{s}.applyRampMoved(e)
	case RampSessionImported:
		s.Workspace = e.Workspace
	case RampSessionMoved:
		ramps{s}.applyRampSessionMoved(e)
	case Relayed:
		s.applyRelayed(e)
	case UnmatchedKept:
		s.Workspace = ident.System.Format(ident.Workspace)
	default:
		panic(fmt.Sprintf("BUG: balance event %T", e))
	}
	s.checkTotals()
	conversions{s}.checkConversions()
	ramps{s}.checkRamp()
}

// catalog has every version of every event of this package.
var catalog = decision.NewCatalog("balance", DepositCreated{}, DepositSettled{}, DepositReceived{}, PayoutCreated{},
	PayoutMoved{}, FXQuoteLocked{}, PhysicalCardOrdered{}, PhysicalCardRefused{}, CheckoutCredited{},
	StablecoinReceived{},
	CurrenciesOnboarded{}, CurrencyOpened{}, CurrencyChanged{}, PayinAnnounced{}, PayinArrived{}, ConversionQuoted{},
	ConversionCreated{}, ConversionMoved{}, RampQuoted{}, RampOrdered{}, RampMoved{}, RampSessionImported{},
	RampSessionMoved{},
	Relayed{}, UnmatchedKept{})

// DecodeEvent decodes an event of any version that this package ever stored. It fails for an
// unknown type and for a payload that does not decode.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	return catalog.Decode(eventType, payload)
}

// checkTotals panics when the sums of the state disagree.
func (s *State) checkTotals() {
	if s.UsdCents != s.LedgerCents+s.CardCents+s.HoldCents+s.ReservedCents {
		panic(fmt.Sprintf("BUG: %d dollars are not %d + %d + %d + %d", s.UsdCents, s.LedgerCents, s.CardCents,
			s.HoldCents,
			s.ReservedCents))
	}
	mustAgree("payouts", s.OpenPayouts, s.ReservedCents)
	mustAgree("deposits", s.OpenDeposits, s.IncomingCents)
}

// mustAgree panics unless the count and the sum of open orders agree: neither is negative, and the
// sum is zero exactly when the count is.
func mustAgree[A money.Amount](orders string, open int, sum A) {
	if open < 0 || sum < 0 || (open == 0) != (sum == 0) {
		panic(fmt.Sprintf("BUG: %d open %s of %d", open, orders, sum))
	}
}
