package hold

import "slices"

// Stricter returns a rule that allows no more than either of two rules of one card. It has the
// version of the first, so the card's next change replaces it.
func Stricter(r, other *Rule) Rule {
	s := *r
	s.State = max(r.State, other.State)
	s.PerTxnCents = min(r.PerTxnCents, other.PerTxnCents)
	s.MonthCents = min(r.MonthCents, other.MonthCents)
	s.MCCs = allowedByBoth(r.MCCs, other.MCCs)
	s.Merchants = allowedByBoth(r.Merchants, other.Merchants)
	return s
}

// allowedByBoth returns the common entries of two allowlists. A nil list allows all.
func allowedByBoth[T comparable](a, b []T) []T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	both := make([]T, 0, min(len(a), len(b)))
	for _, item := range a {
		if slices.Contains(b, item) {
			both = append(both, item)
		}
	}
	return both
}
