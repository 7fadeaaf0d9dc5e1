package audit

import (
	"fmt"
	"strings"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// cardTerms are the terms of a card that the authorizer enforces.
type cardTerms struct {
	Card                 string      `json:"card"`
	Workspace            string      `json:"workspace"`
	Token                string      `json:"token"`
	State                string      `json:"state"`
	MonthlyLimitUsdCents money.Cents `json:"monthlyLimitUsdCents"`
	PerTxnLimitUsdCents  money.Cents `json:"perTxnLimitUsdCents"`
	AllowedMccs          *[]string   `json:"allowedMccs"`
	AllowedMerchants     *[]string   `json:"allowedMerchants"`
}

func (t cardTerms) String() string {
	return fmt.Sprintf("%s of %s, token %s, %s, month %d, each %d, categories %s, merchants %s", t.Card, t.Workspace,
		t.Token,
		t.State, t.MonthlyLimitUsdCents, t.PerTxnLimitUsdCents, formatAllowlist(t.AllowedMccs),
		formatAllowlist(t.AllowedMerchants))
}

// formatAllowlist formats an allowlist; null differs from an empty one.
func formatAllowlist(l *[]string) string {
	if l == nil {
		return "any"
	}
	return fmt.Sprintf("%q", *l)
}

// Rule is the authorizer's copy of a card's terms. MCCs and Merchants are the original allowlists,
// nil for null.
type Rule struct {
	Card, Workspace              ident.UUID
	Token                        string
	Version                      uint64 // stream version of the card
	State                        string
	MonthlyLimit, PerTransaction money.Cents
	MCCs, Merchants              *[]string
}

// WalkRules visits the rule of every card. It fails with visit's error, or when the engine's store
// cannot be read.
func (e *engineSnapshot) WalkRules(visit func(Rule) error) error {
	return e.Snapshot.WalkCards(func(r *hold.Rule) error {
		return visit(Rule{Card: r.Card, Workspace: r.Workspace, Token: r.Token.String(), Version: r.Version,
			State: r.State.String(), MonthlyLimit: r.MonthCents, PerTransaction: r.PerTxnCents,
			MCCs:      originalAllowlist(r.MCCs, formatMCC),
			Merchants: originalAllowlist(r.Merchants, originalMerchant)})
	})
}

// originalAllowlist is an allowlist as the cardholder wrote it, from its stored form; nil stays
// nil.
func originalAllowlist[T any](kept []T, form func(T) string) *[]string {
	if kept == nil {
		return nil
	}
	all := make([]string, len(kept))
	for i, one := range kept {
		all[i] = form(one)
	}
	return &all
}

func formatMCC(mcc uint16) string { return fmt.Sprintf("%04d", mcc) }

// originalMerchant is the merchant name behind its stored form. A stored form that does not match
// its name is returned unchanged, so that the comparison finds it.
func originalMerchant(kept string) string {
	entry := kept[strings.LastIndexByte(kept, 0)+1:]
	if hold.NormalizeMerchant(entry) != kept {
		return kept
	}
	return entry
}

// compareRule compares a card's rule with the terms of its last followed event; differences are
// findings. Its error is always nil.
func (c *authorizerCheck) compareRule(r Rule) error {
	b := c.totalsOf(r.Card)
	if b == nil {
		return nil
	}
	c.markSeen(r.Card)
	id := r.Card.Format(ident.Card)
	known := b.cards[id]
	if known == nil {
		b.expectEqual("rule", id, "card", "none", r.State)
		return nil
	}
	t := known.followed
	b.expectEqual("rule", id, "version", known.version, r.Version)
	b.expectEqual("rule", id, "state", t.State, r.State)
	b.expectEqual("rule", id, "monthly limit", t.MonthlyLimitUsdCents, r.MonthlyLimit)
	b.expectEqual("rule", id, "per-transaction limit", t.PerTxnLimitUsdCents, r.PerTransaction)
	b.expectEqual("rule", id, "token", t.Token, r.Token)
	b.expectEqual("rule", id, "workspace", t.Workspace, r.Workspace.Format(ident.Workspace))
	b.expectEqual("rule", id, "categories", formatAllowlist(t.AllowedMccs), formatAllowlist(r.MCCs))
	b.expectEqual("rule", id, "merchants", formatAllowlist(t.AllowedMerchants), formatAllowlist(r.Merchants))
	return nil
}

// missingRules reports the cards of the totals without a rule in the authorizer. Its error is
// always nil.
func (c *authorizerCheck) missingRules() error {
	return visitUnseen(c, ident.Card, func(b *shardTotals) map[string]*cardTotals { return b.cards },
		func(b *shardTotals, id string, known *cardTotals) {
			b.expectEqual("rule", id, "version", known.version, 0)
		})
}
