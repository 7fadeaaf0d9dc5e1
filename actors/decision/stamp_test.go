package decision_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/decision"
)

func TestStampsAreWrittenInUTCWithMilliseconds(t *testing.T) {
	east := time.FixedZone("east", 2*3600)
	for want, moment := range map[string]time.Time{
		`"2026-11-20T21:40:00.000Z"`: time.Date(2026, 11, 20, 21, 40, 0, 0, time.UTC),
		`"2026-11-20T21:40:00.120Z"`: time.Date(2026, 11, 20, 23, 40, 0, 120_999_999, east),
	} {
		written, err := json.Marshal(decision.StampOf(moment))
		require.NoError(t, err)
		require.Equal(t, want, string(written))
	}
}

func TestStampsReadBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stamp := decision.StampOf(time.UnixMilli(rapid.Int64Range(0, 253402300799999).Draw(t, "ms")))
		written, err := json.Marshal(stamp)
		require.NoError(t, err)
		var read decision.Stamp
		require.NoError(t, json.Unmarshal(written, &read))
		require.Equal(t, stamp, read)
	})
}

func TestStampsInAnotherFormOrYearAreRefused(t *testing.T) {
	for _, bad := range []string{`"9999-12-31T23:59:59-23:59"`, `"0000-01-01T00:00:00+01:00"`, `"yesterday"`, `7`,
		`"2026-11-20T21:40:00+24:00"`, `"2026-11-20T21:40:00+23:60"`, `"2026-11-20T1:40:00Z"`, `"2026-11-20T21:40:00,5Z"`,
		`2026-11-20T21:40:00Z`, `"`, `""`, `"\u0032026-11-20T21:40:00Z"`} {
		var read decision.Stamp
		require.Error(t, json.Unmarshal([]byte(bad), &read), bad)
	}
}
