package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// The facts of the server are those of its metrics. Missing metrics are unknown facts.
func TestFactsAreTheServersOwn(t *testing.T) {
	metrics := ""
	admin := listen(t, func(ctx *fasthttp.RequestCtx) {
		if metrics == "" {
			ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		}
		ctx.SetBodyString(metrics)
	})
	facts := func(admin string) []string {
		r := runAt("http://h:1")
		r.Target.Admin = admin
		all := r.collectFacts(t.Context())
		return []string{all["server"], all["store"], all["authorizer"]}
	}
	unknown := []string{notKnown, notKnown, notKnown}
	require.Equal(t, unknown, facts(""))
	require.Equal(t, unknown, facts(admin))
	metrics = "# HELP purser_build_info x\ngo_goroutines 3\n"
	require.Equal(t, unknown, facts(admin))
	metrics += `purser_build_info{go="go1.26",revision="",version="1.2.3"} 1` + "\n"
	metrics += `purser_stores_info{authorizer_sync="true",events="journal",journal="pebble"} 1` + "\n"
	require.Equal(t, []string{"purser 1.2.3, revision not known", "embedded journal (Pebble)", "every answer is synced"},
		facts(admin))
	metrics = strings.NewReplacer(`revision=""`, `revision="abc+"`, `"journal"`, `"kafka"`, `"pebble"`, `"postgres"`,
		`"true"`, `"false"`).Replace(metrics)
	require.Equal(t, []string{"purser 1.2.3 abc+", "Postgres, Kafka", "NOT synced: answers may be lost"}, facts(admin))
}
