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

// verifyV1 accepts a body that one of the secrets has signed with version 1.
func verifyV1(secrets []string, header string, body []byte, now time.Time) error {
	_, err := VerifyRequest(secrets, header, Request{Body: body}, V1, now)
	return err
}

func TestSignatureOfABody(t *testing.T) {
	good := Sign("one", now, body)
	f := func(header string, at time.Time, valid bool, secrets ...string) {
		t.Helper()
		err := verifyV1(secrets, header, body, at)
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
	f("t=+1800000000"+good[len("t=1800000000"):], now, false, "one") // another notation of the time
	f(good+",t=1800000001", now, false, "one")
	f("v1=00,"+good, now, true, "one")
	f(good+",v1=00,v1=00,v1=00,v1=00", now, false, "one")
	f("t=-9223372036854775808,v1=00", now, false, "one")
	require.ErrorIs(t, verifyV1([]string{"one"}, good, []byte(`{"id":"e2"}`), now), ErrSignature)
}

// A signature of version 2 is valid for one request, no version replaces the other, and the
// strongest valid one counts.
func TestVerifyRequest(t *testing.T) {
	r := Request{Method: "POST", Path: "/a", Body: body}
	v1, v2 := Sign("one", now, body), SignRequest("one", now, r)
	both := v2 + ",v1=" + v1[len("t=1800000000,v1="):]
	f := func(header string, r Request, accepted, want Versions) {
		t.Helper()
		got, err := VerifyRequest([]string{"new", "one"}, header, r, accepted, now)
		require.Equal(t, want, got)
		if want == 0 {
			require.ErrorIs(t, err, ErrSignature)
			return
		}
		require.NoError(t, err)
		require.True(t, Formed(header, accepted, now))
	}
	const either = V1 | V2
	f(v1, r, either, V1)
	f(v2, r, either, V2)
	f(both, r, either, V2)
	f(both, r, V1, V1)
	f(v1, r, V2, 0)
	f(v2, r, V1, 0)
	require.False(t, Formed(v1, V2, now))
	require.False(t, Formed(v2, V1, now))
	for _, other := range []Request{{"PUT", "/a", body}, {"POST", "/b", body}, {"POST", "/a", nil},
		{"POST", "/a\n{", body[1:]}} {
		f(v2, other, either, 0)
	}
	f(both, Request{"POST", "/b", body}, either, V1)
	f("t=1800000001"+v2[len("t=1800000000"):], r, either, 0)
	f("t=1800000000,v1="+v2[len("t=1800000000,v2="):], r, either, 0)
	f("t=1800000000,v2="+v1[len("t=1800000000,v1="):], r, either, 0)
	f(v2+",v2=00,v2=00,v2=00,v2=00", r, either, 0)
	// printf 'v2.1800000000.POST /a\n{"id":"e1"}' | openssl dgst -sha256 -hmac one
	f("t=1800000000,v2=50bc827dad8ee4ed1737cca80eda7ed8b837da54b97a061685c858de893153d9", r, either, V2)
}

func TestParseVersions(t *testing.T) {
	for text, want := range map[string]Versions{"v1": V1, "v2": V2, "v1,v2": V1 | V2, "v2, v1": V1 | V2} {
		got, err := ParseVersions(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "v3", "v1,", "V1"} {
		_, err := ParseVersions(text)
		require.Error(t, err, text)
	}
}

// Only a header that was made with the secret verifies.
func FuzzVerify(f *testing.F) {
	f.Add("t=1800000000,v1=00")
	f.Add(Sign("other", now, body))
	f.Fuzz(func(t *testing.T, header string) {
		require.ErrorIs(t, verifyV1([]string{"one"}, header, body, now), ErrSignature)
		_, err := VerifyRequest([]string{"one"}, header, Request{"POST", "/a", body}, V1|V2, now)
		require.ErrorIs(t, err, ErrSignature)
	})
}
