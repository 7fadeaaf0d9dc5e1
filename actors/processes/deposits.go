package processes

import (
	"context"

	"purser/actors/balance"
	"purser/actors/partner"
	"purser/persistence"
)

// deposits announces deposits to the bank.
type deposits struct{ bank partner.Bank }

// announce announces a created deposit to the bank, which then expects it. It is the reaction
// "bank" to the creation. It fails, and is repeated, for a damaged event and when the bank does not
// answer.
func (d *deposits) announce(ctx context.Context, e persistence.Event) error {
	event, err := balance.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	created := event.(balance.DepositCreated)
	return d.bank.Expect(ctx, partner.Deposit{ID: created.ID, WorkspaceID: e.Workspace, Rail: created.Rail,
		AmountUsdCents: created.AmountUsdCents, ExpectedAt: created.ExpectedAt.Time})
}
