package card_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/card"
	"purser/persistence/ident"
	"purser/persistence/money"
)

func TestRuleHasEveryFieldOfTheTerms(t *testing.T) {
	terms := terms(card.StateActive)
	rule, ok := card.RuleOf(card.Frozen{Terms: terms}, 3)
	require.True(t, ok)
	others := map[string]string{
		"Token": ident.Token{0, 77, 9}.String(), "State": card.StateFrozen,
		"Card":      ident.Derive(77, at, "other card").Format(ident.Card),
		"Workspace": ident.Derive(77, at, "other workspace").Format(ident.Workspace),
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[card.Terms]()) {
		other := terms
		value := reflect.ValueOf(&other).Elem().FieldByIndex(field.Index)
		switch value.Interface().(type) {
		case string:
			require.Contains(t, others, field.Name, "a new field needs another value")
			value.SetString(others[field.Name])
		case money.Cents:
			value.SetInt(value.Int() + 1)
		case *[]string:
			value.Set(reflect.ValueOf(&[]string{"0001"}))
		default:
			t.Fatalf("a case is missing for %s, which is a %s", field.Name, field.Type)
		}
		changed, _ := card.RuleOf(card.Frozen{Terms: other}, 3)
		require.NotEqual(t, rule, changed, field.Name)
	}
}
