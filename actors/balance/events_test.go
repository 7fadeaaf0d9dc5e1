package balance_test

import (
	"testing"
	"time"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/ident"
	"purser/authorizer/hold"
)

var (
	start       = time.UnixMilli(1_763_640_000_123)
	workspaceID = ident.Derive(77, start, "workspace")
	cardID      = ident.Derive(77, start, "card")
)

func TestEventsAreReadForEver(t *testing.T) {
	stamp := decision.StampOf(start)
	workspace := workspaceID.Format(ident.Workspace)
	deposit := balance.Deposit{
		ID: ident.Derive(77, start, "deposit").Format(ident.Deposit), Status: balance.DepositPending, Rail: "ach", AmountUsdCents: 1500,
		ExpectedAt: stamp,
	}
	group := ident.Derive(77, start, "group").Format(ident.TransferGroup)
	postings := []balance.Posting{{Transfer: group, Account: "usd", Cents: 1500}, {Transfer: group, Account: "bank", Cents: -1500}}
	clearing := hold.Entry{
		Seq: 9, WsSeq: 3, At: start.UnixMilli(), Kind: hold.Clearing, Decision: hold.Posted, Reason: hold.ReasonForcedPost, Shard: 4,
		Workspace: workspaceID, Card: cardID, NetworkID: "n-1", Amount: 250, Currency: [3]byte{'U', 'S', 'D'},
		Merchant: hold.Merchant{ID: "m1", Name: "Bakery", Country: "US", MCC: 742}, CardDelta: -250, SpendDelta: 250, Posted: 250,
		Spend: hold.Spend{Month: 202511, Cents: 250},
		After: hold.Hold{
			ID: ident.Derive(77, start, "auth"), Card: cardID, Workspace: workspaceID, NetworkID: "n-1", At: start.UnixMilli(), Asked: 250,
			Approved: 250, Cleared: 250, Month: 202511, Decision: hold.Approved, Reason: hold.ReasonForcedPost, Status: hold.StatusCleared,
		},
	}
	decisiontest.Goldens(t, balance.DecodeEvent,
		balance.DepositCreated{Workspace: workspace, Deposit: deposit, At: stamp},
		balance.DepositSettled{
			Workspace: workspace, Deposit: deposit.ID, EventID: "b-1", AmountUsdCents: 1500, Postings: postings, At: stamp,
		},
		balance.DepositReceived{Workspace: workspace, Deposit: deposit, EventID: "b-2", Postings: postings, At: stamp},
		balance.Relayed{Workspace: workspace, Entries: []hold.Entry{clearing}, Postings: postings, At: stamp},
		balance.UnmatchedKept{
			ID: ident.Derive(0, start, "report").Format(ident.Event), Partner: "bank", EventID: "b-3", Type: "deposit.settled", At: stamp,
		},
	)
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.Fuzz(f, balance.DecodeEvent) }
