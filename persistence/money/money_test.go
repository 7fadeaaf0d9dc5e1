package money_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence/money"
)

func TestAddIsCheckedAtTheEdges(t *testing.T) {
	for _, c := range []struct {
		a, b money.Cents
		ok   bool
	}{{math.MaxInt64, 1, false}, {math.MinInt64, -1, false}, {math.MaxInt64, 0, true}, {math.MinInt64, 0, true},
		{math.MaxInt64, math.MinInt64, true}, {math.MaxInt64 - 1, 1, true}, {0, 0, true}} {
		got, err := money.Add(c.a, c.b)
		require.Equal(t, c.ok, err == nil, "%d+%d", c.a, c.b)
		if c.ok {
			require.Equal(t, c.a+c.b, got)
		}
	}
}

func TestMonthAgreesWithTheCalendar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 253402300799999).Draw(t, "ms")
		at := time.UnixMilli(ms).UTC()
		require.Equal(t, money.Month(at.Year()*100+int(at.Month())), money.MonthOf(ms), at)
	})
}
