package httpapi

import (
	"bufio"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/actors/workspace"
)

// liveStream is an open stream of a workspace's changes.
type liveStream struct {
	*world
	lines *bufio.Scanner
}

// openLive opens the stream of a workspace's changes as a page does. more holds further header
// lines.
func (w *world) openLive(tn tenant, more string) *liveStream {
	w.t.Helper()
	return w.openStream("/dashboard/"+tn.workspace+"/live?after=0", "Cookie: "+sessionCookie+"="+tn.cookie+"\r\n"+more)
}

// openStream opens server-sent events at an address. more holds further header lines.
func (w *world) openStream(address, more string) *liveStream {
	w.t.Helper()
	conn, err := w.listen.Dial()
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, conn.Close()) })
	require.NoError(w.t, conn.SetReadDeadline(time.Now().Add(waitFor)))
	_, err = conn.Write([]byte("GET " + address + " HTTP/1.1\r\nHost: purser.test\r\n" + more +
		"Connection: close\r\n\r\n"))
	require.NoError(w.t, err)
	return &liveStream{w, bufio.NewScanner(conn)}
}

// next returns the id and the data of the next event; "" after the end of the stream.
func (s *liveStream) next() (id, data string) {
	s.t.Helper()
	for s.lines.Scan() {
		line := s.lines.Text()
		if text, isID := strings.CutPrefix(line, "id: "); isID {
			id = text
		}
		if text, isData := strings.CutPrefix(line, "data: "); isData {
			return id, text
		}
	}
	return "", ""
}

// streamLong lets streams last longer than a test waits for an event. The server aborts an answer
// that takes longer than WriteTimeout.
func (w *world) streamLong() {
	w.server.streams.lasting, w.server.httpServer.http.WriteTimeout = 2*waitFor, 3*waitFor
}

// A stream has the changes of its workspace alone, and the next one continues where it ended.
func TestAPageHearsOfTheChangesOfItsWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.streamLong()
	tn, other := w.newTenant("olga"), w.newTenant("mallory")
	w.settled()
	stream := w.openLive(tn, "")
	_, data := stream.next()
	require.Equal(t, "changed", data, "the page may be older than the stream")
	w.mint(other, "")
	w.mint(tn, "")
	id, data := stream.next()
	require.Equal(t, "changed", data)
	w.settled()

	again := w.openLive(tn, "Last-Event-ID: "+id+"\r\n")
	first, data := again.next()
	if data == "changed" { // an event of the same card
		again = w.openLive(tn, "Last-Event-ID: "+first+"\r\n")
		first, data = again.next()
	}
	require.Equal(t, "unchanged", data)
	w.mint(other, "")
	w.settled()
	_, data = w.openLive(tn, "Last-Event-ID: "+first+"\r\n").next()
	require.Equal(t, "unchanged", data, "the other workspace has changed")
	w.mint(tn, "")
	_, data = w.openLive(tn, "Last-Event-ID: "+first+"\r\n").next()
	require.Equal(t, "changed", data)
}

func TestAStreamOfChangesEndsWithItsSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.streamLong()
	tn := w.newTenant("olga")
	stream := w.openLive(tn, "")
	_, data := stream.next()
	require.Equal(t, "changed", data)
	w.ok(w.post(session(tn.cookie), "/api/dashboard/logout", ""))
	for range 100 { // changes of the workspace may come before
		if _, data = stream.next(); data == "" {
			break
		}
	}
	require.Empty(t, data)
	require.NoError(t, stream.lines.Err(), "the server ended it")
	require.Equal(t, 401, w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/live", nil).status)
}

// A person who is removed from the workspace gets no later change, though the session lasts.
func TestAStreamOfChangesEndsWithTheMembership(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.streamLong()
	tn := w.newTenant("olga")
	id, cookie := w.person(tn, workspace.Admin)
	w.settled()
	stream := w.openLive(tenant{workspace: tn.workspace, cookie: cookie}, "")
	_, data := stream.next()
	require.NotEmpty(t, data)
	w.ok(w.do(session(tn.cookie), "DELETE", "/api/dashboard/members/"+id, ""))
	for range 100 { // changes before the removal may still come
		if _, data = stream.next(); data == "" {
			break
		}
		w.mint(tn, "")
	}
	require.Empty(t, data)
	require.NoError(t, stream.lines.Err(), "the server ended it")
	w.ok(w.get(session(cookie), "/api/dashboard/me"))
}

// A shutdown ends open streams of the dashboard and of payment links instead of waiting for their
// end.
func TestAShutdownEndsStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.streamLong()
	tn := w.newTenant("olga")
	dashboard, customer := w.openLive(tn, ""), w.openStream("/checkout/"+w.newCheckout(tn, "").text("session", "id")+
		"/events", "")
	for _, stream := range []*liveStream{dashboard, customer} {
		_, data := stream.next()
		require.NotEmpty(t, data)
	}
	within, cancel := context.WithTimeout(t.Context(), waitFor)
	defer cancel()
	require.NoError(t, w.server.Shutdown(within))
	for _, stream := range []*liveStream{dashboard, customer} {
		for stream.lines.Scan() { // lines that were sent before
		}
		require.NoError(t, stream.lines.Err(), "the server ended it")
	}
}

// A user's streams are bounded, and so are those of all pages together. Beyond a limit a page
// polls.
func TestStreamsOfChangesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Streams = maxUserStreams + 1 })
	w.streamLong()
	tn, other := w.newTenant("olga"), w.newTenant("mallory")
	live := func(tn tenant) int {
		return w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/live?after=0", nil).status
	}
	for range maxUserStreams {
		_, data := w.openLive(tn, "").next()
		require.NotEmpty(t, data)
	}
	require.Equal(t, fasthttp.StatusServiceUnavailable, live(tn))
	_, data := w.openLive(other, "").next()
	require.NotEmpty(t, data, "another user has places")
	require.Equal(t, fasthttp.StatusServiceUnavailable, live(other), "all places are taken")
	require.Equal(t, 200, w.visit(session(tn.cookie), "/dashboard/"+tn.workspace, nil).status, "the page polls")
}

func TestAStreamOfChangesNeedsAMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.newTenant("olga"), w.newTenant("mallory")
	address := "/dashboard/" + tn.workspace + "/live"
	require.Equal(t, 401, w.visit(nil, address, nil).status)
	require.Equal(t, 404, w.visit(session(other.cookie), address, nil).status)
	require.Equal(t, 404, w.visit(session(tn.cookie), "/dashboard/ws_nothing/live", nil).status)
	require.Contains(t, w.visit(session(tn.cookie), "/dashboard/"+tn.workspace, nil).text, `data-live="`+address+`?after=`)
	require.Equal(t, 400, w.visit(session(tn.cookie), address+"?after=soon", nil).status)
}
