package httpapi

import (
	"encoding/json"
	"time"

	"github.com/valyala/fasthttp"

	"purser/actors/balance"
	"purser/actors/bankday"
	"purser/actors/decision"
	"purser/actors/fairshare"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// treasuryEntries is the number of ledger entries in the treasury's answer.
const treasuryEntries = 25

// treasuryHandlers serve the dollar balance, its ledger and statements, counterparties and payouts.
type treasuryHandlers struct {
	*edge
	calendar   *bankday.Calendar
	statements *fairshare.Limit // statements in progress
	totals     *totalsCache
}

func newTreasuryHandlers(e *edge, calendar *bankday.Calendar) *treasuryHandlers {
	return &treasuryHandlers{edge: e, calendar: calendar, statements: fairshare.New(statementsAtOnce, 1),
		totals: newTotalsCache()}
}

func (h *treasuryHandlers) treasuryRoutes() []route {
	return []route{
		{method: "GET", path: "/api/treasury", auth: authKey, scope: "read:treasury", handle: h.getTreasury},
		{method: "POST", path: "/api/treasury/deposits", auth: authKey, scope: "write:treasury", sandboxOnly: true,
			idempotency: keyOptional, handle: h.createDeposit},
	}
}

// getTreasury handles GET /api/treasury: the balances and the newest treasuryEntries ledger
// entries. It first waits until the journal has the workspace's answered decisions. It fails only
// with an error of the store.
func (h *treasuryHandlers) getTreasury(c *call) (answer, error) {
	id := c.who.workspace()
	h.actors.WaitRelayed(c.ctx, id)
	view, err := ask[balance.View](c.ctx, h.actors, toBalance(id, decision.Read{}))
	if err != nil {
		return answer{}, err
	}
	records, err := query.LedgerEntries.AsStored().List(c.ctx, h.actors, id, "", query.Page{Limit: treasuryEntries})
	if err != nil {
		return answer{}, err
	}
	ledger := make([]json.RawMessage, len(records))
	for i, r := range records {
		ledger[i] = r.Document
	}
	return reply(map[string]any{"balances": view.Balances, "snapshot": view.Snapshot, "ledger": ledger})
}

// createDeposit handles POST /api/treasury/deposits of a sandbox workspace: it announces a deposit
// that arrives after the deposit delay. It fails with invalid_body, with capability_unavailable for
// stablecoins, and with the balance's refusal.
func (h *treasuryHandlers) createDeposit(c *call) (answer, error) {
	var body struct {
		Source         string      `json:"source"`
		Rail           string      `json:"rail"`
		Asset          string      `json:"asset"`
		Chain          string      `json:"chain"`
		AmountUsdCents money.Cents `json:"amountUsdCents"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	if body.Source != "bank_fiat" {
		return answer{}, fault.New(fault.CapabilityUnavailable, "stablecoin deposits are not available")
	}
	slot, err := c.slot()
	if err != nil {
		return answer{}, err
	}
	u, err := ident.New(slot, c.now, h.actors.Entropy())
	if err != nil {
		return answer{}, err
	}
	id := c.who.workspace()
	return askIdempotent(h.edge, c, toBalance(id, balance.CreateDeposit{
		Workspace: id, ID: u.Format(ident.Deposit), Rail: body.Rail, AmountUsdCents: body.AmountUsdCents,
		ExpectedAt: c.now.Add(h.cfg.DepositDelay).Truncate(time.Millisecond),
	}), func(deposit balance.Deposit) (answer, error) {
		return replyWith(fasthttp.StatusAccepted, map[string]any{"deposit": deposit})
	})
}
