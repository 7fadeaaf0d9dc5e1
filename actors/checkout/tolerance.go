package checkout

import (
	"fmt"
	"strconv"
	"strings"

	"purser/persistence/money"
)

// Bounds of a Tolerance: 0.5 % of the amount, and one cent.
const (
	MaxToleranceBasisPoints = 50
	MaxToleranceCents       = 1
)

// Tolerance is the shortfall that a link accepts: basis points of its amount, rounded down to whole
// cents, or a number of cents, whichever is more. The zero Tolerance accepts no shortfall. A link
// stores the resulting cents when it is created; a customer never sees them.
type Tolerance struct {
	BasisPoints int64
	Cents       money.Cents
}

// ParseTolerance reads "basis points,cents". It fails for another form and for a number out of
// bounds. `purser serve` reads the setting of the checkout tolerance with it.
func ParseTolerance(text string) (Tolerance, error) {
	points, cents, two := strings.Cut(text, ",")
	p, errPoints := strconv.ParseInt(strings.TrimSpace(points), 10, 64)
	c, errCents := strconv.ParseInt(strings.TrimSpace(cents), 10, 64)
	t := Tolerance{BasisPoints: p, Cents: money.Cents(c)}
	if !two || errPoints != nil || errCents != nil || !t.IsValid() {
		return Tolerance{}, fmt.Errorf("%q is not basis points and cents with a comma: 0 to %d, 0 to %d", text,
			MaxToleranceBasisPoints, MaxToleranceCents)
	}
	return t, nil
}

// IsValid reports whether the tolerance is within its bounds.
func (t Tolerance) IsValid() bool {
	return t.BasisPoints >= 0 && t.BasisPoints <= MaxToleranceBasisPoints && t.Cents >= 0 &&
		t.Cents <= MaxToleranceCents
}

// ShortfallFor returns the largest accepted shortfall, in cents, for a link of an amount. The
// result is less than the amount.
func (t Tolerance) ShortfallFor(amountCents money.Cents) money.Cents {
	return min(max(amountCents.BasisPoints(t.BasisPoints), t.Cents), amountCents-1)
}

// isFilled reports whether the confirmed payments complete the link. A shortfall is accepted only
// while no payment is unconfirmed, because that payment may be the rest.
func (s *State) isFilled(st paymentTotals) bool {
	return st.confirmedCents >= s.AmountUsdCents || st.unconfirmed == 0 && s.isTolerable(st)
}

// isTolerable reports whether the confirmed payments fall short by no more than the tolerance.
func (s *State) isTolerable(st paymentTotals) bool {
	return st.confirmedCents >= s.AmountUsdCents-s.ToleranceCents
}
