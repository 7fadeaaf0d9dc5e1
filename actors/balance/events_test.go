package balance_test

import (
	"testing"
	"time"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/authorizer/hold"
	"purser/persistence/ident"
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
		ID: ident.Derive(77, start, "deposit").Format(ident.Deposit), Status: balance.DepositPending, Rail: "ach",
		AmountUsdCents: 1500, ExpectedAt: stamp,
	}
	group := ident.Derive(77, start, "group").Format(ident.TransferGroup)
	postings := []balance.Posting{{Transfer: group, Account: "usd", Amount: 1500},
		{Transfer: group, Account: "bank", Amount: -1500}}
	coins := []balance.Posting{{Transfer: group, Account: "stablecoin", Amount: 1500},
		{Transfer: group, Account: "chain", Amount: -1500}}
	clearing := hold.Entry{
		Seq: 9, WsSeq: 3, At: start.UnixMilli(), Kind: hold.Clearing, Decision: hold.Posted,
		Reason: hold.ReasonForcedPost, Shard: 4, Workspace: workspaceID, Card: cardID, NetworkID: "n-1",
		Amount: 250, Currency: [3]byte{'U', 'S', 'D'},
		Merchant: hold.Merchant{ID: "m1", Name: "Bakery", Country: "US", MCC: 742}, CardDelta: -250, SpendDelta: 250,
		Posted: 250,
		Spend:  hold.Spend{Month: 202511, Cents: 250},
		After: hold.Hold{
			ID: ident.Derive(77, start, "auth"), Card: cardID, Workspace: workspaceID, NetworkID: "n-1",
			At:    start.UnixMilli(),
			Asked: 250, Approved: 250, Cleared: 250, Month: 202511, Decision: hold.Approved,
			Reason: hold.ReasonForcedPost,
			Status: hold.StatusCleared,
		},
	}
	quote := balance.Quote{
		ID: ident.Derive(77, start, "quote").Format(ident.FXQuote), Status: balance.QuoteLocked,
		CounterpartyID: "rcp_1",
		Sell:           balance.Amount{Currency: "USD", AmountMinor: 10_980}, Buy: balance.Amount{Currency: "EUR",
			AmountMinor: 10_000},
		Rate: "0.910724", LockExpiresAt: stamp, CreatedAt: stamp,
	}
	payout := balance.Payout{
		ID: ident.Derive(77, start, "payout").Format(ident.Payout), Rail: balance.RailIntlWire,
		Status:         balance.PayoutHeld,
		CounterpartyID: "rcp_1", AmountCents: 10_980, QuoteID: &quote.ID, Buy: &quote.Buy, Reference: "po_1",
		UETR: "8a562c67-ca16-48ba-b074-65581be6f011", ExpectedOn: "2025-11-24", Key: "key_1", CreatedAt: stamp,
		UpdatedAt: stamp,
		History:   []balance.PayoutStep{{Status: balance.PayoutHeld, At: stamp}},
	}
	order := balance.PhysicalOrder{
		ID: ident.Derive(77, start, "order").Format(ident.PhysicalOrder), Status: balance.PhysicalOrdered,
		Finish: balance.FinishMetal, UnlockMethod: balance.UnlockPremium99, FeeCents: 9_900, Card: balance.OrderedCard{
			ID: cardID.Format(ident.Card), Token: "ctok_e61qf6yd64nnq2za0jpx16ayhd1w", Last4: "6811",
			CardholderID:         "chld_1",
			MonthlyLimitUsdCents: 500_000, PerTxnLimitUsdCents: 50_000, Fixture: true,
		}, ArrivesFrom: "2025-12-01", ArrivesTo: "2025-12-03", CreatedAt: stamp,
	}
	payin := balance.Payin{ID: deposit.ID, Status: balance.PayinPending,
		Amount: balance.Amount{Currency: "EUR", AmountMinor: 1500}, ExpectedAt: stamp}
	euros := []balance.Posting{{Transfer: group, Account: "bank", Currency: "EUR", Amount: -1500},
		{Transfer: group, Account: "currency", Currency: "EUR", Amount: 1500}}
	ramped := []balance.Posting{{Transfer: group, Account: "stablecoin", Amount: -1500},
		{Transfer: group, Account: "ramp", Amount: 1500}}
	decisiontest.RequireGoldens(t, balance.DecodeEvent,
		balance.PhysicalCardOrdered{Workspace: workspace, Order: order, Postings: postings},
		balance.PhysicalCardRefused{Workspace: workspace, Order: order.ID, FeeCents: 9_900, Postings: postings,
			At: stamp},
		balance.PayoutCreated{Workspace: workspace, Payout: payout},
		balance.PayoutMoved{
			Workspace: workspace, Payout: payout.ID, From: balance.PayoutSubmitted, To: balance.PayoutSettled,
			AmountCents: 10_980, EventID: "b-4", Postings: postings, At: stamp,
		},
		balance.FXQuoteLocked{Workspace: workspace, Quote: quote},
		balance.DepositCreated{Workspace: workspace, Deposit: deposit, At: stamp},
		balance.DepositSettled{
			Workspace: workspace, Deposit: deposit.ID, EventID: "b-1", AmountUsdCents: 1500, Postings: postings,
			At: stamp,
		},
		balance.CheckoutCredited{Workspace: workspace, Session: "cs_1", AmountUsdCents: 1500, Postings: coins,
			At: stamp},
		balance.StablecoinReceived{Workspace: workspace, ID: deposit.ID, EventID: "s-1", Asset: "USDC",
			Chain:  "polygon",
			TxHash: "0x1", AmountUsdCents: 1500, Postings: coins, At: stamp},
		balance.DepositReceived{Workspace: workspace, Deposit: deposit, EventID: "b-2", Postings: postings, At: stamp},
		balance.CurrenciesOnboarded{Workspace: workspace, At: stamp},
		balance.CurrencyOpened{Workspace: workspace, Currency: "EUR", At: stamp},
		balance.CurrencyChanged{Workspace: workspace, Currency: "EUR", Status: "active", Scope: "paused",
			EventID: "b-5",
			At:      stamp},
		balance.PayinAnnounced{Workspace: workspace, Payin: payin, At: stamp},
		balance.PayinArrived{Workspace: workspace, Payin: payin.ID, Amount: payin.Amount, Postings: euros, At: stamp},
		balance.ConversionQuoted{Workspace: workspace, Quote: balance.ConversionQuote{ID: "mcq_1",
			Status: balance.QuoteLocked,
			Sell:   payin.Amount, Buy: balance.Amount{Currency: "JPY", AmountMinor: 2438}, Rate: "162.5394952475",
			LockExpiresAt: stamp, CreatedAt: stamp}},
		balance.ConversionCreated{Workspace: workspace, Conversion: balance.Conversion{ID: "cnv_1", QuoteID: "mcq_1",
			Status: balance.ConversionHeld, Sell: payin.Amount, Buy: balance.Amount{Currency: "JPY", AmountMinor: 2438},
			CreatedAt: stamp, UpdatedAt: stamp, History: []balance.PayoutStep{{Status: balance.ConversionHeld,
				At: stamp}}},
			Postings: euros},
		balance.ConversionMoved{Workspace: workspace, Conversion: "cnv_1", From: balance.ConversionSubmitted,
			To: balance.ConversionCompleted, Sell: payin.Amount, Buy: balance.Amount{Currency: "JPY",
				AmountMinor: 2438},
			EventID: "b-6", Postings: euros, At: stamp},
		balance.RampQuoted{Workspace: workspace, Quote: balance.RampQuote{ID: "rq_1", Status: balance.QuoteLocked,
			Direction: balance.RampWithdraw, AmountCents: 1500, MaxFeeCents: 8, ReceiveCents: 1492, WalletID: "wal_1",
			ExpiresAt: stamp, CreatedAt: stamp}},
		balance.RampOrdered{Workspace: workspace, Order: balance.RampOrder{ID: "ro_1", QuoteID: "rq_1",
			Direction: balance.RampWithdraw, Status: balance.RampCreated, AmountCents: 1500, MaxFeeCents: 8,
			FeeCents: 8,
			WalletID: "wal_1", CreatedAt: stamp, UpdatedAt: stamp,
			History: []balance.PayoutStep{{Status: balance.RampCreated, At: stamp}}}, Postings: ramped},
		balance.RampMoved{Workspace: workspace, Order: "ro_1", Direction: balance.RampWithdraw,
			From: balance.RampProcessing,
			To:   balance.RampCompleted, AmountCents: 1500, FeeCents: 7, TxHash: "0x1", EventID: "r-1",
			Postings: ramped, At: stamp},
		balance.RampSessionImported{Workspace: workspace, Session: balance.RampSession{ID: "rs_1",
			Direction: balance.RampOff,
			Status:    balance.RampProcessing, AmountCents: 1500, CreatedAt: stamp, UpdatedAt: stamp}, At: stamp},
		balance.RampSessionMoved{Workspace: workspace, Session: "rs_1", Direction: balance.RampOff,
			From: balance.RampProcessing,
			To:   balance.RampFailed, AmountCents: 1500, EventID: "r-2", Postings: ramped, At: stamp},
		balance.Relayed{Workspace: workspace, Entries: []hold.Entry{clearing}, Postings: postings, At: stamp},
		balance.UnmatchedKept{
			ID: ident.Derive(0, start, "report").Format(ident.Event), Partner: "bank", EventID: "b-3",
			Type: "deposit.settled",
			At:   stamp,
		},
	)
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.FuzzDecoder(f, balance.DecodeEvent) }
