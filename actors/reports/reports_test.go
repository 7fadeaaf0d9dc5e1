package reports

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// ledger is an Actors in which every record exists. It keeps the commands in their order, and
// answers each as refuse says.
type ledger struct {
	workspace string
	direction string // of every order
	commands  []string
	refuse    func(command any) (any, error)
}

func (l *ledger) Ask(_ context.Context, e actors.Envelope) (any, error) {
	l.commands = append(l.commands, fmt.Sprintf("%s %T", e.Workspace, e.Command))
	if l.refuse == nil {
		return nil, nil
	}
	return l.refuse(e.Command)
}

func (l *ledger) Find(_ context.Context, _ ident.Slot, kind, id string) (persistence.Record, error) {
	return persistence.Record{Kind: kind, ID: id, Workspace: l.workspace,
		Document: fmt.Appendf(nil, `{"direction":%q}`, l.direction)}, nil
}

func newID(t *testing.T, prefix string) string {
	t.Helper()
	id, err := ident.New(7, time.UnixMilli(1), strings.NewReader(strings.Repeat("r", 64)))
	require.NoError(t, err)
	return id.Format(prefix)
}

// process processes a report of a type about a target, named in every field that names one.
func (l *ledger) process(t *testing.T, channel Channel, kind, target string) (Outcome, error) {
	t.Helper()
	data := fmt.Sprintf(`{"depositId":%[1]q,"payoutId":%[1]q,"conversionId":%[1]q,"workspaceId":%[1]q,"orderId":%[1]q}`,
		target)
	r, err := Parse(fmt.Appendf(nil, `{"id":"e1","type":%q,"data":%s}`, kind, data))
	require.NoError(t, err)
	return NewProcessor(l, slog.New(slog.DiscardHandler)).Process(t.Context(), channel, r)
}

// A report is claimed in the system workspace before its balance gets the command, and a report on
// another channel changes nothing.
func TestEveryTypeIsClaimedBeforeItIsApplied(t *testing.T) {
	system := ident.System.Format(ident.Workspace)
	prefixes := map[string]string{"deposit.settled": ident.Deposit, "payout": ident.Payout,
		"conversion": ident.Conversion, "onramp": ident.RampOrder, "offramp": ident.RampOrder,
		"withdrawal": ident.Withdrawal}
	directions := map[string]string{"onramp": balance.RampOn, "offramp": balance.RampOff,
		"withdrawal": balance.RampWithdraw}
	for kind, row := range types {
		channel := row.channel
		subject, _, _ := strings.Cut(kind, ".")
		prefix := prefixes[kind] + prefixes[subject]
		if prefix == "" {
			prefix = ident.Workspace
		}
		l := &ledger{workspace: newID(t, ident.Workspace), direction: directions[subject]}
		outcome, err := l.process(t, channel, kind, newID(t, prefix))
		require.NoError(t, err)
		require.Equal(t, Outcome{}, outcome, kind)
		require.Len(t, l.commands, 2, kind)
		require.Equal(t, system+" balance.ClaimReport", l.commands[0])
		require.True(t, strings.HasPrefix(l.commands[1], l.workspace+" balance."), l.commands[1])

		l = &ledger{}
		outcome, err = l.process(t, Channel{Partner: channel.Partner, Topic: "another"}, kind, newID(t, prefix))
		require.NoError(t, err)
		require.Equal(t, Outcome{Unmatched: true}, outcome, kind)
		require.Equal(t, []string{system + " balance.KeepUnmatched"}, l.commands)
	}
}

// A report whose id is claimed for another target is stored as unmatched.
func TestAClaimForAnotherTargetMatchesNothing(t *testing.T) {
	l := &ledger{refuse: func(command any) (any, error) {
		if _, claims := command.(balance.ClaimReport); claims {
			return actors.Replayed{Answer: []byte("po_other")}, nil
		}
		return nil, nil
	}}
	outcome, err := l.process(t, BankTransfers, "payout.settled", newID(t, ident.Payout))
	require.NoError(t, err)
	require.Equal(t, Outcome{Unmatched: true}, outcome)
	require.Len(t, l.commands, 2)
	require.Contains(t, l.commands[1], "balance.KeepUnmatched")
}

// An error that a later delivery can avoid is returned, and nothing is stored as unmatched.
func TestATransientErrorIsReturned(t *testing.T) {
	for _, code := range []fault.Code{fault.Unavailable, fault.OutcomeUnknown, fault.Internal} {
		l := &ledger{refuse: func(command any) (any, error) {
			if _, applies := command.(balance.ReportPayout); applies {
				return nil, fault.New(code, "")
			}
			return nil, nil
		}}
		_, err := l.process(t, BankTransfers, "payout.settled", newID(t, ident.Payout))
		require.True(t, fault.Is(err, code), "%v", err)
		require.Len(t, l.commands, 2)
	}
}

// A payout that settles after its money was released is late.
func TestALateReportIsAnAlarm(t *testing.T) {
	l := &ledger{refuse: func(command any) (any, error) {
		if _, applies := command.(balance.ReportPayout); applies {
			return balance.ReportedPayout{Late: true}, nil
		}
		return nil, nil
	}}
	outcome, err := l.process(t, BankTransfers, "payout.settled", newID(t, ident.Payout))
	require.NoError(t, err)
	require.Equal(t, Outcome{Late: true}, outcome)
}
