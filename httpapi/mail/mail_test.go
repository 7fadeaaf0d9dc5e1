package mail

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serveSMTP answers one connection as an SMTP server that gives a reply to RCPT, and returns its
// URL and the mail that it got.
func serveSMTP(t *testing.T, rcpt string) (address string, got <-chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	mails := make(chan string, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		lines := bufio.NewScanner(conn)
		say := func(text string) { fmt.Fprintf(conn, "%s\r\n", text) }
		say("220 test")
		for lines.Scan() {
			verb, _, _ := strings.Cut(lines.Text(), " ")
			switch verb {
			case "EHLO":
				say("250 test")
			case "RCPT":
				say(rcpt)
			case "DATA":
				say("354 go on")
				var text strings.Builder
				for lines.Scan() && lines.Text() != "." {
					text.WriteString(lines.Text() + "\n")
				}
				mails <- text.String()
				say("250 ok")
			default:
				say("250 ok")
			}
		}
	}()
	return "smtp://" + ln.Addr().String() + "?from=purser@example.com", mails
}

func TestAMailArrives(t *testing.T) {
	address, got := serveSMTP(t, "250 ok")
	m, err := Parse(address)
	require.NoError(t, err)
	require.NoError(t, m.Send(t.Context(), Message{To: "ada@example.com", Subject: "Reset\r\nBcc: eve@example.com",
		Text: "https://purser.test/?a=b\n"}))
	text := <-got
	require.Contains(t, text, "To: <ada@example.com>\n")
	require.Contains(t, text, "From: <purser@example.com>\n")
	require.Contains(t, text, "a=3Db\n")
	require.NotContains(t, text, "\nBcc:")
}

func TestARefusedRecipientIsNotTriedAgain(t *testing.T) {
	address, _ := serveSMTP(t, "550 no such mailbox")
	m, err := Parse(address)
	require.NoError(t, err)
	_, permanent := errors.AsType[*Permanent](m.Send(t.Context(), Message{To: "ada@example.com"}))
	require.True(t, permanent)
	address, _ = serveSMTP(t, "450 later")
	m, err = Parse(address)
	require.NoError(t, err)
	err = m.Send(t.Context(), Message{To: "ada@example.com"})
	_, permanent = errors.AsType[*Permanent](err)
	require.Error(t, err)
	require.False(t, permanent)
	_, permanent = errors.AsType[*Permanent](m.Send(t.Context(), Message{To: "ada>\r\nRCPT TO:<eve@example.com"}))
	require.True(t, permanent)
}

// A token is never sent over a connection that others can read.
func TestAServerElsewhereNeedsTLS(t *testing.T) {
	address, got := serveSMTP(t, "250 ok")
	m, err := Parse(address)
	require.NoError(t, err)
	m.host = "mail.example.com"
	require.ErrorContains(t, m.Send(t.Context(), Message{To: "ada@example.com"}), "offers no TLS")
	require.Empty(t, got)
}

func TestParseNamesTheFaultAndNoPassword(t *testing.T) {
	for _, text := range []string{"http://mail.example.com?from=a@b.c", "smtp://?from=a@b.c", "smtp://u:secret@mail.example.com",
		"smtps://u:secret@mail.example.com/path?from=a@b.c", "smtp://u:secret@mail.example.com?from=nobody", ":secret"} {
		_, err := Parse(text)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "secret")
	}
	m, err := Parse("smtps://u:secret@mail.example.com?from=a@b.c")
	require.NoError(t, err)
	require.Equal(t, "mail.example.com:465", m.address)
	require.True(t, m.direct)
	m, err = Parse("smtp://mail.example.com:25?from=a@b.c")
	require.NoError(t, err)
	require.Equal(t, "mail.example.com:25", m.address)
}

// sender is a Sender made of a function.
type sender func(context.Context, Message) error

// Send implements Sender.
func (s sender) Send(ctx context.Context, m Message) error { return s(ctx, m) }

func ready(context.Context) (Message, error) { return Message{To: "ada@example.com"}, nil }

// newQueue makes a queue whose pauses take no time and are sent to a channel.
func newQueue(t *testing.T, send sender) (*Queue, <-chan time.Duration) {
	pauses := make(chan time.Duration, MaxQueued)
	q := NewQueue(Options{Sender: send, Log: slog.New(slog.DiscardHandler),
		Pause: func(_ context.Context, d time.Duration) error {
			pauses <- d
			return nil
		}})
	t.Cleanup(q.Close)
	return q, pauses
}

// dropCounter counts the dropped mails of a queue by their reason.
type dropCounter struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *dropCounter) count(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[reason]++
}

func TestAMailIsTriedAgainAtMostNineTimes(t *testing.T) {
	var attempts atomic.Int64
	done := make(chan struct{})
	q, pauses := newQueue(t, func(context.Context, Message) error {
		if attempts.Add(1) == maxAttempts {
			defer close(done)
		}
		return errors.New("the network is down")
	})
	require.NoError(t, q.Put("192.0.2.1", ready))
	<-done
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128} {
		require.Equal(t, want*firstPause, <-pauses)
	}
	q.Close()
	require.EqualValues(t, maxAttempts, attempts.Load())
}

func TestAPermanentRefusalIsTriedOnce(t *testing.T) {
	done := make(chan struct{}, maxAttempts)
	q, pauses := newQueue(t, func(context.Context, Message) error {
		done <- struct{}{}
		return &Permanent{errors.New("no such mailbox")}
	})
	require.NoError(t, q.Put("192.0.2.1", ready))
	<-done
	require.NoError(t, q.Put("192.0.2.1", func(context.Context) (Message, error) { return Message{}, ErrNoMail }))
	require.NoError(t, q.Put("192.0.2.1", ready))
	<-done
	q.Close()
	require.Empty(t, pauses)
	require.Empty(t, done)
}

// At most MaxQueued mails are queued and at most maxConnections of them are sent at once. The
// others are refused, and every one that is not sent is counted.
func TestTheQueueIsBounded(t *testing.T) {
	started, release := make(chan struct{}, MaxQueued), make(chan struct{})
	var dropped dropCounter
	q := NewQueue(Options{Log: slog.New(slog.DiscardHandler), Dropped: dropped.count,
		Sender: sender(func(context.Context, Message) error {
			started <- struct{}{}
			<-release
			return nil
		})})
	for range MaxOfOrigin {
		require.NoError(t, q.Put("192.0.2.0", ready))
	}
	require.ErrorIs(t, q.Put("192.0.2.0", ready), ErrFull, "one address")
	for range MaxOfOrigin + 1 {
		require.NoError(t, q.Put("", ready), "of nobody")
	}
	for i := 2*MaxOfOrigin + 1; i < MaxQueued; i++ {
		require.NoError(t, q.Put(fmt.Sprint("192.0.2.", i/MaxOfOrigin), ready))
	}
	require.ErrorIs(t, q.Put("", ready), ErrFull, "all addresses")
	for range maxConnections {
		<-started
	}
	require.Empty(t, started)
	go func() {
		<-q.base.Done()
		close(release)
	}()
	q.Close()
	require.ErrorIs(t, q.Put("192.0.2.1", ready), ErrClosed)
	require.Equal(t, map[string]int{DroppedFull: 2, DroppedStopped: MaxQueued - maxConnections}, dropped.counts)
}

// Mails that pause between two attempts hold no connection: one whose server is fine is sent
// meanwhile.
func TestAPausingMailDelaysNoOther(t *testing.T) {
	paused, sent := make(chan struct{}, 2*maxConnections), make(chan struct{})
	q := NewQueue(Options{Log: slog.New(slog.DiscardHandler),
		Sender: sender(func(_ context.Context, m Message) error {
			if m.To != "bob@example.com" {
				return errors.New("450 later")
			}
			close(sent)
			return nil
		}),
		Pause: func(ctx context.Context, _ time.Duration) error {
			paused <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}})
	defer q.Close()
	for range 2 * maxConnections {
		require.NoError(t, q.Put("192.0.2.1", ready))
	}
	for range 2 * maxConnections {
		<-paused
	}
	require.NoError(t, q.Put("192.0.2.1", func(context.Context) (Message, error) {
		return Message{To: "bob@example.com"}, nil
	}))
	<-sent
}

// A dropped mail is logged by its reason, without the address, and without a token that the mail
// server quotes.
func TestADroppedMailIsLoggedWithoutItsSecret(t *testing.T) {
	var log bytes.Buffer
	q := NewQueue(Options{Log: slog.New(slog.NewTextHandler(&log, nil)),
		Sender: sender(func(context.Context, Message) error {
			return &Permanent{errors.New("554 spam: reset_0123456789abcdefghjkmnpqrstvwxyz")}
		})})
	require.NoError(t, q.Put("192.0.2.1", ready))
	q.running.Wait()
	q.Close()
	require.Contains(t, log.String(), "reason=refused attempts=1")
	require.Contains(t, log.String(), "554 spam: reset_[redacted]")
	require.NotContains(t, log.String(), "ada@example.com")
}

func TestCloseEndsAPause(t *testing.T) {
	paused := make(chan struct{})
	q := NewQueue(Options{Sender: sender(func(context.Context, Message) error { return errors.New("down") }),
		Log: slog.New(slog.DiscardHandler), Pause: func(ctx context.Context, _ time.Duration) error {
			close(paused)
			<-ctx.Done()
			return ctx.Err()
		}})
	require.NoError(t, q.Put("192.0.2.1", ready))
	<-paused
	q.Close()
}
