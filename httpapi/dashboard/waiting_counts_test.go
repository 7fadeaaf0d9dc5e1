package dashboard

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The navigation counts waiting records at most every countsFor for a workspace and role, and anew
// after a form. Another workspace's or role's counts are its own.
func TestTheCountsOfTheNavigationAreKept(t *testing.T) {
	api := &pathAPI{scriptedAPI: scriptedAPI{may: true}, documents: map[string]string{
		payoutsPath: `{"data":[{"id":"po_1","status":"held"}],"nextCursor":null}`, rampWalletsPath: `{"data":[]}`,
		endpointsPath: `{"data":[]}`}}
	var counts waitingCounts
	f := func(want string, change func(*Visit)) {
		t.Helper()
		visited := newVisit(api, "GET", "ws_1/cards", url.Values{})
		change(visited)
		require.Equal(t, want, counts.readCounts(&visit{Visit: visited})["Payouts"])
	}
	f("1", func(*Visit) {})
	api.documents[payoutsPath] = `{"data":[],"nextCursor":null}`
	f("1", func(v *Visit) { v.Now = v.Now.Add(countsFor - 1) })
	f("", func(v *Visit) { v.Workspace = "ws_2" })
	f("", func(v *Visit) { v.Role = "member" })
	f("", func(v *Visit) { v.Now = v.Now.Add(countsFor) })
	api.documents[payoutsPath] = `{"data":[{"id":"po_1"},{"id":"po_2"}],"nextCursor":"c"}`
	later := func(v *Visit) { v.Now = v.Now.Add(countsFor + time.Second) }
	f("", later)
	counts.dropCounts(&visit{Visit: newVisit(api, "POST", "ws_1/payouts", nil)})
	f("2+", later)
}
