package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"purser/actors/fault"
)

// Limits of server-sent events.
const (
	maxStreams     = 2_000 // pages with server-sent events in a process; the others poll
	maxUserStreams = 20    // of them, pages of one signed-in user
	streamFor      = 10 * time.Second
	streamEvery    = 500 * time.Millisecond
	streamRetry    = time.Second
)

// eventStreams bounds the answers with server-sent events. It is safe for concurrent use.
type eventStreams struct {
	base    context.Context // ends all streams
	end     context.CancelFunc
	lasting time.Duration // the constant streamFor, except in tests

	mu     sync.Mutex
	most   int
	open   int
	byUser map[string]int
}

func newEventStreams(base context.Context, most int) *eventStreams {
	s := &eventStreams{lasting: streamFor, most: most, byUser: map[string]int{}}
	s.base, s.end = context.WithCancel(base)
	return s
}

// endStreams ends all streams, and every later one after its first event. It must be called
// before a stop waits for the running requests, because an open stream is one.
func (s *eventStreams) endStreams() { s.end() }

// enter takes a place for a stream, of a user or of nobody (""). It fails with unavailable when all
// places of the process or of the user are taken. The caller must leave.
func (s *eventStreams) enter(user string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= s.most || user != "" && s.byUser[user] >= maxUserStreams {
		return fault.New(fault.Unavailable, "Too many pages are open; ask for the page instead.")
	}
	s.open++
	if user != "" {
		s.byUser[user]++
	}
	return nil
}

// leave gives a place back.
func (s *eventStreams) leave(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.byUser[user]--; s.byUser[user] <= 0 {
		delete(s.byUser, user)
	}
}

// send answers a request with server-sent events. It asks next for an event at once and at every
// streamEvery; "" is none. The stream ends after streamFor, before the server's write timeout, when
// next fails, and when the connection closes; the browser opens the next one. next gets a copy of
// the call whose context ends with the stream. send fails like enter.
func (s *eventStreams) send(ctx *fasthttp.RequestCtx, c *call, user string, next func(*call) (string, error)) error {
	ctx.Response.Header.SetContentType("text/event-stream")
	if ctx.IsHead() {
		return nil
	}
	if err := s.enter(user); err != nil {
		return err
	}
	followed := *c
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer s.leave(user)
		within, cancel := context.WithTimeout(s.base, s.lasting)
		defer cancel()
		followed.ctx = within
		writeEvents(w, &followed, next)
	})
	return nil
}

// writeEvents writes what next returns until it fails or the call's context ends.
func writeEvents(w *bufio.Writer, c *call, next func(*call) (string, error)) {
	ticker := time.NewTicker(streamEvery)
	defer ticker.Stop()
	fmt.Fprintf(w, "retry: %d\n\n", streamRetry.Milliseconds())
	for {
		event, err := next(c)
		if err != nil {
			return
		}
		// A comment line at every tick makes a closed connection fail the write.
		if event == "" {
			event = ":\n\n"
		}
		if _, err := w.WriteString(event); err != nil || w.Flush() != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-c.ctx.Done():
			return
		}
	}
}
