package card

import (
	"fmt"
	"unicode/utf8"

	"purser/actors/fault"
	"purser/authorizer/hold"
)

// networkState returns the authorizer's form of a card's state; false for an unknown state.
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

// checkEach fails with invalid_body and the field's name for a list of more than MaxAllowlist
// items, or with an item that is not good. A nil list passes.
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

// isMCC reports whether the text is four digits, the form of a merchant category code.
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

func mustBeValid(err error) {
	if err != nil {
		panic("BUG: card terms: " + err.Error())
	}
}
