package httpapi

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// treasuryEntries is how many ledger entries the treasury shows.
const treasuryEntries = 25

func (s *Server) treasuryRoutes() []route {
	return []route{
		{method: "GET", path: "/api/treasury", auth: authKey, scope: "read:treasury", handle: s.getTreasury},
		{method: "POST", path: "/api/treasury/deposits", auth: authKey, scope: "write:treasury", sandboxOnly: true,
			idempotency: keyOptional, handle: s.createDeposit},
	}
}

func (s *Server) getTreasury(c *call) (answer, error) {
	id := c.who.workspace()
	s.actors.WaitRelayed(c.ctx, id)
	read, err := s.actors.Ask(c.ctx, actors.Envelope{Kind: "balance", Stream: id, Workspace: id, Command: decision.Read{}})
	if err != nil {
		return answer{}, err
	}
	view, ok := read.(balance.View)
	if !ok {
		return answer{}, fmt.Errorf("balance answered %T", read)
	}
	records, err := s.actors.List(c.ctx, balance.RecordLedgerEntry, id, "", persistence.Page{Limit: treasuryEntries})
	if err != nil {
		return answer{}, err
	}
	ledger := make([]json.RawMessage, len(records))
	for i, r := range records {
		ledger[i] = c.unmark(r.Document)
	}
	return reply(map[string]any{"balances": view.Balances, "snapshot": view.Snapshot, "ledger": ledger})
}

// listLedger lists all of the ledger, of which the treasury shows the newest entries.
func (s *Server) listLedger(c *call) (answer, error) {
	id := c.who.workspace()
	s.actors.WaitRelayed(c.ctx, id)
	return s.list(c, listing{kind: balance.RecordLedgerEntry, workspace: id}, func(r persistence.Record) (any, error) {
		return json.RawMessage(c.unmark(r.Document)), nil
	})
}

func (s *Server) createDeposit(c *call) (answer, error) {
	var body struct {
		Source         string `json:"source"`
		Rail           string `json:"rail"`
		Asset          string `json:"asset"`
		Chain          string `json:"chain"`
		AmountUsdCents int64  `json:"amountUsdCents"`
	}
	if err := s.decode(c, &body); err != nil {
		return answer{}, err
	}
	if body.Source != "bank_fiat" {
		return answer{}, fault.New(fault.CapabilityUnavailable, "stablecoin deposits are not available")
	}
	slot, err := c.slot()
	if err != nil {
		return answer{}, err
	}
	u, err := ident.New(slot, c.now, s.actors.Entropy())
	if err != nil {
		return answer{}, err
	}
	id := c.who.workspace()
	return s.perform(c, actors.Envelope{Kind: "balance", Stream: id, Workspace: id, Command: balance.CreateDeposit{
		Workspace: id, ID: u.Format(ident.Deposit), Rail: body.Rail, AmountUsdCents: body.AmountUsdCents,
		ExpectedAt: c.now.Add(s.cfg.DepositDelay).Truncate(time.Millisecond),
	}}, func(deposit any) (answer, error) {
		return replyWith(fasthttp.StatusAccepted, map[string]any{"deposit": deposit})
	})
}
