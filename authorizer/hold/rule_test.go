package hold

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
