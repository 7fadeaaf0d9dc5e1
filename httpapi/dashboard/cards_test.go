package dashboard

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// A decline without an authorization, as by a late authorizer, has its reason on the card's page.
// Other texts in the address are not shown.
func TestADeclineThatIsNotStoredIsShown(t *testing.T) {
	v := &visit{Visit: newVisit(&pathAPI{}, "GET", "ws_1/cards/card_1", nil)}
	address, err := afterSwipe(v, []byte(`{"decision":"declined","reason":"timeout"}`))
	require.NoError(t, err)
	shown := func(address string) *Notice {
		parsed, err := url.Parse(address)
		require.NoError(t, err)
		v.Query = parsed.Query()
		return swipeNotice(v, []authorization{{ID: "auth_1", Decision: "approved"}})
	}
	require.Equal(t,
		"The swipe was declined: not decided in time. The card network gets this answer, and no swipe is kept. Nothing was charged: swipe again.",
		shown(address).Text)
	address, err = afterSwipe(v, []byte(`{"decision":"approved","reason":"approved","authorizationId":"auth_1"}`))
	require.NoError(t, err)
	require.Equal(t, "The swipe was approved.", shown(address).Text)
	require.Nil(t, shown("/?unstored=call+555"))
}
