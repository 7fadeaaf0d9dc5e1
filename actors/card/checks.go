package card

import (
	"fmt"
	"unicode/utf8"

	"purser/actors/fault"
	"purser/authorizer/hold"
	"purser/persistence/money"
)

func networkState(state string) (hold.CardState, bool) {
	switch state {
	case StateActive:
		return hold.CardActive, true
	case StateFrozen:
		return hold.CardFrozen, true
	case StateTerminated:
		return hold.CardTerminated, true
	}
	return 0, false
}

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

func checkEach(field string, list *[]string, good func(string) bool, want string) error {
	if list == nil {
		return nil
	}
	if len(*list) > MaxAllowlist {
		return invalidBody("%s: at most %d items", field, MaxAllowlist)
	}
	for i, item := range *list {
		if !good(item) {
			return invalidBody("%s[%d]: %s", field, i, want)
		}
	}
	return nil
}

func isMCC(s string) bool {
	if len(s) != 4 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func isMerchant(s string) bool {
	n := utf8.RuneCountInString(s)
	return n >= 1 && n <= MaxMerchant
}

func invalidBody(format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidBody, fmt.Sprintf(format, args...))
}
