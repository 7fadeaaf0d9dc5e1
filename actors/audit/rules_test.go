package audit

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/card"
	"purser/persistence/ident"
	"purser/persistence/money"
)

func TestAuditReadsEveryFieldOfACardsTerms(t *testing.T) {
	var stored, read []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[card.Terms]()) {
		stored = append(stored, field.Tag.Get("json"))
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[cardTerms]()) {
		read = append(read, field.Tag.Get("json"))
	}
	require.ElementsMatch(t, stored, read)
}

// eachOtherTerms visits terms that differ from same in one field. A new type needs a case.
func eachOtherTerms(t *testing.T, same cardTerms, visit func(field string, other cardTerms)) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[cardTerms]()) {
		other := same
		value := reflect.ValueOf(&other).Elem().FieldByIndex(field.Index)
		switch value.Interface().(type) {
		case string:
			value.SetString("other")
		case money.Cents:
			value.SetInt(7)
		case *[]string:
			value.Set(reflect.ValueOf(&[]string{}))
		default:
			t.Fatalf("eachOtherTerms needs a case for %s, which is a %s", field.Name, field.Type)
		}
		visit(field.Name, other)
	}
}

func TestAuditComparesEveryFieldOfACardsTerms(t *testing.T) {
	id, workspace := ident.UUID{1}, ident.UUID{2}
	same := cardTerms{Card: id.Format(ident.Card), Workspace: workspace.Format(ident.Workspace)}
	rule := Rule{Card: id, Workspace: workspace}
	findings := func(terms cardTerms) []Finding {
		b := newShardTotals(id.Shard())
		b.cardOf(same.Card).followed = terms
		c := &authorizerCheck{totals: map[ident.Shard]*shardTotals{b.shard: b}}
		require.NoError(t, c.compareRule(rule))
		return b.findings
	}
	require.Empty(t, findings(same))
	eachOtherTerms(t, same, func(field string, other cardTerms) {
		require.NotEqual(t, same.String(), other.String(), "the comparison of records leaves out %s", field)
		if field != "Card" { // a rule is found by its card
			require.Len(t, findings(other), 1, field)
		}
	})
}
