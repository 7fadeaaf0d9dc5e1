package webhook

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	now  = time.Unix(1_800_000_000, 0)
	body = []byte(`{"id":"e1"}`)
)

func TestVerify(t *testing.T) {
	good := Sign("one", now, body)
	f := func(header string, at time.Time, valid bool, secrets ...string) {
		t.Helper()
		err := Verify(secrets, header, body, at)
		if valid {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, ErrSignature)
	}
	f(good, now, true, "one")
	f(good, now, true, "new", "one")
	f(good, now.Add(Tolerance), true, "one")
	f(good, now.Add(-Tolerance), true, "one")
	f(good, now.Add(Tolerance+time.Second), false, "one")
	f(good, now.Add(-Tolerance-time.Second), false, "one")
	f(good, now, false, "two")
	f(good, now, false)
	f("", now, false, "one")
	f("t=1800000000", now, false, "one")
	f("t=1800000000,v1=", now, false, "one")
	f("t=1800000000,v1=zz", now, false, "one")
	f("t=+1800000000"+good[len("t=1800000000"):], now, false, "one") // another spelling of the time
	f(good+",t=1800000001", now, false, "one")
	f("v1=00,"+good, now, true, "one")
	f(good+",v1=00,v1=00,v1=00,v1=00", now, false, "one")
	f("t=-9223372036854775808,v1=00", now, false, "one")
	require.ErrorIs(t, Verify([]string{"one"}, good, []byte(`{"id":"e2"}`), now), ErrSignature)
}

// No header that was not made with the secret verifies.
func FuzzVerify(f *testing.F) {
	f.Add("t=1800000000,v1=00")
	f.Add(Sign("other", now, body))
	f.Fuzz(func(t *testing.T, header string) {
		require.ErrorIs(t, Verify([]string{"one"}, header, body, now), ErrSignature)
	})
}
