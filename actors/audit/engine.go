package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// Engine is what is read of an authorizer.Engine.
type Engine interface {
	Followed(shard ident.Shard) uint64
	Synced(shard ident.Shard) uint64
	ReadLog(shard ident.Shard, after uint64, limit int) ([]hold.Entry, error)
	WalkFunds(visit func(workspace ident.UUID, f authorizer.Funds, wsSeq uint64) error) error
	WalkHolds(visit func(h *hold.Hold) error) error
	WalkCards(visit func(r *hold.Rule) error) error
	WalkSpends(visit func(card ident.UUID, spend hold.Spend) error) error
	WalkReservations(visit func(workspace, reservation ident.UUID, cents int64) error) error
	WalkDue(visit func(h ident.UUID, expiresAt int64) error) error
	Lost(shard ident.Shard) ([]authorizer.Lost, error)
}

// Of shows an engine to an audit. It passes on what is stored and adds nothing up.
func Of(e Engine) Authorizer { return engine{e} }

type engine struct{ Engine }

const entriesPerRead = 1000

// Log goes through the JSON of the journal, so that an audit reads entries in one way only.
func (e engine) Log(shard ident.Shard, after uint64, visit func(entry []byte) error) error {
	for {
		entries, err := e.ReadLog(shard, after, entriesPerRead)
		if err != nil || len(entries) == 0 {
			return err
		}
		for i := range entries {
			raw, err := json.Marshal(&entries[i])
			if err != nil {
				return err
			}
			if err := visit(raw); err != nil {
				return err
			}
		}
		after = entries[len(entries)-1].Seq
	}
}

func (e engine) WalkFunds(visit func(Funds) error) error {
	return e.Engine.WalkFunds(func(workspace ident.UUID, f authorizer.Funds, _ uint64) error {
		return visit(Funds{Workspace: workspace, Ledger: f.LedgerCents, Card: f.CardCents, Reserved: f.ReservedCents})
	})
}

func (e engine) WalkHolds(visit func(Hold) error) error {
	return e.Engine.WalkHolds(func(h *hold.Hold) error {
		return visit(Hold{ID: h.ID, Card: h.Card, Workspace: h.Workspace, Held: h.Held, Cleared: h.Cleared, Refunded: h.Refunded,
			Month: uint32(h.Month), MonthCents: h.MonthCents, ExpiresAt: h.ExpiresAt, Status: h.Status.String()})
	})
}

func (e engine) WalkDue(visit func(Due) error) error {
	return e.Engine.WalkDue(func(h ident.UUID, at int64) error { return visit(Due{Hold: h, At: at}) })
}

func (e engine) Lost(shard ident.Shard) ([]Loss, error) {
	var all []Loss
	lost, err := e.Engine.Lost(shard)
	for _, l := range lost {
		all = append(all, Loss{Shard: shard, First: l.First, Last: l.Last, At: time.UnixMilli(l.At)})
	}
	return all, err
}

func (e engine) WalkRules(visit func(Rule) error) error {
	return e.WalkCards(func(r *hold.Rule) error {
		return visit(Rule{Card: r.Card, Workspace: r.Workspace, Token: r.Token.String(), Version: r.Version,
			State: r.State.String(), MonthlyLimit: r.MonthCents, PerTransaction: r.PerTxnCents, MCCs: written(r.MCCs, writtenMCC),
			Merchants: written(r.Merchants, writtenMerchant)})
	})
}

// written is an allowlist as it was given, from the form in which the authorizer keeps it.
func written[T any](kept []T, form func(T) string) *[]string {
	if kept == nil {
		return nil
	}
	all := make([]string, len(kept))
	for i, one := range kept {
		all[i] = form(one)
	}
	return &all
}

func writtenMCC(mcc uint16) string { return fmt.Sprintf("%04d", mcc) }

// writtenMerchant leaves a merchant whose folded form is not that of the entry behind it as it stands, so that it differs.
func writtenMerchant(kept string) string {
	entry := kept[strings.LastIndexByte(kept, 0)+1:]
	if hold.NormalizeMerchant(entry) != kept {
		return kept
	}
	return entry
}

func (e engine) WalkSpends(visit func(Spend) error) error {
	return e.Engine.WalkSpends(func(card ident.UUID, s hold.Spend) error {
		return visit(Spend{Card: card, Month: uint32(s.Month), Cents: s.Cents})
	})
}

func (e engine) WalkReservations(visit func(Reservation) error) error {
	return e.Engine.WalkReservations(func(workspace, reservation ident.UUID, cents int64) error {
		return visit(Reservation{Workspace: workspace, ID: reservation, Cents: cents})
	})
}
