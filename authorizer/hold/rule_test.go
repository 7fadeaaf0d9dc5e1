package hold

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// unlimiting are the fields of a Rule that allow and refuse nothing.
var unlimiting = []string{"Token", "Card", "Workspace", "Version"}

// valuesOf returns two values of a field's type. The second one allows less, if the field is a
// limit. A new type needs a case.
func valuesOf(t *testing.T, field reflect.StructField) (loose, strict any) {
	switch reflect.Zero(field.Type).Interface().(type) {
	case ident.Token:
		return ident.Token{1}, ident.Token{2}
	case ident.UUID:
		return ident.UUID{1}, ident.UUID{2}
	case uint64:
		return uint64(1), uint64(2)
	case CardState:
		return CardActive, CardFrozen
	case money.Cents:
		return money.Cents(900), money.Cents(100)
	case []uint16:
		return []uint16(nil), []uint16{5411}
	case []string:
		return []string(nil), []string{"cafe"}
	}
	t.Fatalf("valuesOf needs a case for %s, which is a %s", field.Name, field.Type)
	return nil, nil
}

// ruleWith returns a rule that has the value in one field and is zero in the others.
func ruleWith(field reflect.StructField, value any) Rule {
	var r Rule
	reflect.ValueOf(&r).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(value))
	return r
}

func TestStricterCoversEveryFieldOfARule(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Rule]()) {
		a, b := valuesOf(t, field)
		loose, strict := ruleWith(field, a), ruleWith(field, b)
		if slices.Contains(unlimiting, field.Name) {
			require.Equal(t, loose, Stricter(&loose, &strict), field.Name)
			require.Equal(t, strict, Stricter(&strict, &loose), field.Name)
			continue
		}
		require.Equal(t, strict, Stricter(&loose, &strict), field.Name)
		require.Equal(t, strict, Stricter(&strict, &loose), field.Name)
	}
}

func TestCodecKeepsEveryFieldOfARule(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Rule]()) {
		loose, strict := valuesOf(t, field)
		for _, value := range []any{loose, strict} {
			var back Rule
			r := ruleWith(field, value)
			require.NoError(t, DecodeRule(AppendRule(nil, &r), &back), field.Name)
			require.Equal(t, r, back, field.Name)
		}
	}
}

func TestStricterAllowsNoMoreThanEither(t *testing.T) {
	now := Rule{State: CardActive, Version: 3, PerTxnCents: 100, MonthCents: 900, MCCs: []uint16{5812, 5411}}
	lost := Rule{State: CardFrozen, Version: 7, PerTxnCents: 500, MonthCents: 200, MCCs: []uint16{5411},
		Merchants: []string{"cafe"}}
	want := Rule{State: CardFrozen, Version: 3, PerTxnCents: 100, MonthCents: 200, MCCs: []uint16{5411},
		Merchants: []string{"cafe"}}
	require.Equal(t, want, Stricter(&now, &lost))
	want.Version = 7
	require.Equal(t, want, Stricter(&lost, &now))
	apart := Stricter(&Rule{MCCs: []uint16{1}}, &Rule{MCCs: []uint16{2}})
	require.NotNil(t, apart.MCCs, "an empty list allows nothing, a nil one all")
	require.Empty(t, apart.MCCs)
}
