package mail

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"purser/persistence/ident"
)

// Limits of the queue. sendTimeout bounds each connection.
const (
	MaxQueued      = 256 // mails that wait, are sent or pause between attempts; one more is refused
	MaxOfOrigin    = 32  // of them, mails that one address asks for
	maxConnections = 2   // to the SMTP server at once
	maxAttempts    = 9   // of one mail; their pauses add up to eight and a half minutes
	firstPause     = 2 * time.Second
	attemptTime    = time.Minute // for preparing or sending a mail once
)

// ErrFull means that MaxQueued mails wait, or MaxOfOrigin of one address.
var ErrFull = errors.New("too many mails wait")

// ErrClosed means that the queue has been closed.
var ErrClosed = errors.New("the queue of mails is closed")

// ErrNoMail is returned by Prepare when there is nothing to send.
var ErrNoMail = errors.New("no mail")

// Reasons for which a mail is dropped.
const (
	DroppedFull       = "full"       // MaxQueued mails wait, or MaxOfOrigin of one address
	DroppedUnprepared = "unprepared" // Prepare has failed
	DroppedRefused    = "refused"    // the mail server refuses the mail for good
	DroppedFailed     = "failed"     // maxAttempts attempts have failed
	DroppedStopped    = "stopped"    // the server stops
)

// DropReasons lists the reasons for which a mail is dropped.
func DropReasons() []string {
	return []string{DroppedFull, DroppedUnprepared, DroppedRefused, DroppedFailed, DroppedStopped}
}

// Sender sends one mail; *Mailer implements it.
type Sender interface {
	Send(ctx context.Context, message Message) error
}

// Prepare makes a queued mail. It runs on a goroutine of the queue, so its time is not that of the
// caller who queued it. An error other than ErrNoMail is logged, and no mail is sent.
type Prepare func(ctx context.Context) (Message, error)

// Options are the parts of a queue. Sender and Log are required.
type Options struct {
	Sender  Sender
	Log     *slog.Logger
	Dropped func(reason string) // counts a dropped mail; nil counts none
	// Pause returns after a duration or with the context's error; nil uses the process's timers.
	Pause func(ctx context.Context, d time.Duration) error
}

// Queue prepares and sends mails in the background. A mail that pauses between two attempts holds
// no connection, so it delays no other. The queue is in memory: a stop drops the mails that wait,
// and people ask again. It is safe for concurrent use.
type Queue struct {
	Options
	connections chan struct{} // one of each connection to the SMTP server
	base        context.Context
	cancel      context.CancelFunc

	mu      sync.Mutex // guards what follows
	queued  int
	origins map[string]int // queued mails of each address
	running sync.WaitGroup // grows under mu
}

// NewQueue makes a queue. The REST server calls it once.
func NewQueue(o Options) *Queue {
	if o.Pause == nil {
		o.Pause = pauseFor
	}
	if o.Dropped == nil {
		o.Dropped = func(string) {}
	}
	q := &Queue{Options: o, origins: make(map[string]int), connections: make(chan struct{}, maxConnections)}
	q.base, q.cancel = context.WithCancel(context.Background())
	return q
}

// Put queues a mail. Origin is the address that asked for it; a mail with the origin "" counts only
// against MaxQueued. It fails with ErrFull and, after Close, with ErrClosed.
func (q *Queue) Put(origin string, prepare Prepare) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.base.Err() != nil {
		return ErrClosed
	}
	if q.queued == MaxQueued || origin != "" && q.origins[origin] == MaxOfOrigin {
		q.dropMail(DroppedFull, 0, ErrFull)
		return ErrFull
	}
	q.queued++
	q.origins[origin]++
	q.running.Go(func() {
		defer q.leave(origin)
		q.sendMail(prepare)
	})
	return nil
}

func (q *Queue) leave(origin string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued--
	if q.origins[origin]--; q.origins[origin] == 0 {
		delete(q.origins, origin)
	}
}

// Close ends the running attempts, drops the mails that wait, and returns when the last one has
// ended.
func (q *Queue) Close() {
	q.mu.Lock()
	q.cancel()
	q.mu.Unlock()
	q.running.Wait()
}

// sendMail prepares a mail and sends it, at most maxAttempts times with a doubling pause between
// them. Put runs it on a goroutine of its own.
func (q *Queue) sendMail(prepare Prepare) {
	var message Message
	err := q.withConnection(func(ctx context.Context) (err error) {
		message, err = prepare(ctx)
		return err
	})
	switch {
	case errors.Is(err, ErrNoMail):
		return
	case err != nil:
		q.dropMail(DroppedUnprepared, 0, err)
		return
	}
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err = q.withConnection(func(ctx context.Context) error {
			return q.Sender.Send(ctx, message)
		})
		_, permanent := errors.AsType[*Permanent](err)
		switch {
		case err == nil:
			return
		case permanent:
			q.dropMail(DroppedRefused, attempt, err)
			return
		case attempt == maxAttempts:
			q.dropMail(DroppedFailed, attempt, err)
			return
		case q.Pause(q.base, pause) != nil:
			q.dropMail(DroppedStopped, attempt, err)
			return
		}
		pause *= 2
	}
}

// withConnection runs one part of a mail's life within attemptTime, while it holds one of
// maxConnections. It fails with the part's error, and with the context's after Close.
func (q *Queue) withConnection(part func(context.Context) error) error {
	select {
	case q.connections <- struct{}{}:
	case <-q.base.Done():
		return q.base.Err()
	}
	defer func() { <-q.connections }()
	if err := q.base.Err(); err != nil {
		return err // a connection was free in the moment of Close
	}
	ctx, cancel := context.WithTimeout(q.base, attemptTime)
	defer cancel()
	return part(ctx)
}

// dropMail counts and logs a mail that is not sent. The line has no address and no text. A mail
// server may quote the mail in its answer, so secrets in the error are redacted.
func (q *Queue) dropMail(reason string, attempts int, err error) {
	if q.base.Err() != nil {
		reason = DroppedStopped
	}
	q.Dropped(reason)
	q.Log.Warn("a mail was dropped", "reason", reason, "attempts", attempts, "err",
		ident.RedactSecrets(err.Error()))
}

func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
