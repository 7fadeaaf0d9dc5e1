package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"purser/actors/seal"
	"purser/persistence"
	"purser/persistence/ident"
)

const (
	listedRows   = 100_000
	maxFirstPage = 60 << 10 // bytes of a page over the wire, without its style sheet and script
	copiedAtOnce = 2_000    // records in a batch
)

// notLists are pages that read lists and are none: the counts of the home page, and a month's
// statement, which answers 422 for more than 50,000 lines.
var notLists = []string{"/dashboard/{workspace}", "/dashboard/{workspace}/treasury/statement"}

// BenchmarkListPages measures every page that lists records, without its script, on one connection:
// each list has 100,000 rows. The empty handler runs on the same kind of connection. It fails when
// a page is larger than 60 KB.
func BenchmarkListPages(b *testing.B) {
	b.Run("empty handler", func(b *testing.B) {
		listener := fasthttputil.NewInmemoryListener()
		server := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}}
		done := make(chan error, 1)
		go func() { done <- server.Serve(listener) }()
		defer stopListening(b, listener, done)
		measureVisits(b, listener, "/", "")
	})
	w := newWorld(b)
	pages := w.sitePages()
	w.close()
	for _, p := range pages {
		if p.Member && len(p.kinds) == 0 && !slices.Contains(notLists, p.Address) {
			b.Run(strings.TrimPrefix(p.Address, "/dashboard/{workspace}")+"/", func(b *testing.B) { benchmarkPage(b, p) })
		}
	}
}

// readsSeen records the lists that a page reads, and the records that it reads by an id.
type readsSeen struct {
	Actors
	mu    sync.Mutex
	lists map[[2]string]bool // kind and parent
	byID  map[[2]string]bool // kind and id
}

// Record implements query.Reader.
func (l *readsSeen) Record(ctx context.Context, kind, workspace, id string) (persistence.Record, error) {
	l.mu.Lock()
	l.byID[[2]string{kind, id}] = true
	l.mu.Unlock()
	return l.Actors.Record(ctx, kind, workspace, id)
}

// List implements query.Reader.
func (l *readsSeen) List(ctx context.Context, kind, workspace, parent string, page persistence.Page) (
	[]persistence.Record, error) {
	l.mu.Lock()
	l.lists[[2]string{kind, parent}] = true
	l.mu.Unlock()
	return l.Actors.List(ctx, kind, workspace, parent, page)
}

func benchmarkPage(b *testing.B, p sitePage) {
	w := newWorld(b)
	tn := w.rampTenant("ada")
	e := w.newEstate(tn)
	for _, kind := range []string{"authorization", "payout", "checkout_session", "webhook_delivery", "agent", "cardholder",
		"conversion", "ramp_order"} {
		e.id(kind)
	}
	address := p.addressIn(tn.workspace, e)
	seen := &readsSeen{Actors: w.actors.Actors, lists: map[[2]string]bool{},
		byID: map[[2]string]bool{}}
	w.actors.Actors = seen
	require.Equal(b, 200, w.visit(session(tn.cookie), address, nil).status)
	w.actors.Actors = seen.Actors
	rows := 0
	for list := range seen.lists {
		rows += w.copyRecords(tn, list[0], list[1], seen.byID)
	}
	if rows == 0 {
		b.Skip("the page lists no records")
	}
	page := w.visit(session(tn.cookie), address, nil)
	require.Equal(b, 200, page.status)
	size := measureVisits(b, w.listen, address, tn.cookie)
	require.LessOrEqual(b, size, maxFirstPage)
	root := w.parsePage(page.text)
	for _, file := range slices.Concat(attributesOf(root, "link", "href"), attributesOf(root, "script", "src")) {
		if strings.HasPrefix(file, "/dashboard/") {
			size += len(w.visit(nil, file, nil).text)
		}
	}
	b.ReportMetric(float64(rows), "rows")
	b.ReportMetric(float64(size)/1024, "KB/first-visit")
}

// copyRecords copies the newest record of a list until it has listedRows, and returns how many it
// wrote. The records that are read by the id of the newest are copied too. A list without a record
// stays empty.
func (w *world) copyRecords(tn tenant, kind, parent string, byID map[[2]string]bool) int {
	w.t.Helper()
	newest, err := w.system.List(context.Background(), kind, tn.workspace, parent, persistence.Page{Limit: 1})
	require.NoError(w.t, err)
	if len(newest) == 0 {
		return 0
	}
	originals := newest
	for read := range byID {
		beside, err := w.system.Record(context.Background(), read[0], tn.workspace, newest[0].ID)
		if read[1] == newest[0].ID && read[0] != kind && err == nil {
			originals = append(originals, beside)
		}
	}
	prefix := kind
	if before, _, isID := strings.Cut(newest[0].ID, "_"); isID {
		prefix = before
	}
	shard := newest[0].Slot.Shard()
	for n := 0; n < listedRows; {
		batch := &persistence.Batch{Workspace: tn.workspace, Slot: newest[0].Slot}
		for ; len(batch.Records) < copiedAtOnce && n < listedRows; n++ {
			id := ident.Derive(newest[0].Slot, w.clock.now(), fmt.Sprint(kind, n)).Format(prefix)
			for _, of := range originals {
				batch.Records = append(batch.Records, w.copyOf(of, id))
			}
		}
		outcomes, err := w.journal.Append(context.Background(), shard, w.journal.Head(shard).Epoch, w.clock.now(),
			[]*persistence.Batch{batch})
		require.NoError(w.t, err)
		require.NoError(w.t, outcomes[0].Err)
	}
	return listedRows
}

// copyOf returns a copy of a record under another id, sealed like the record.
func (w *world) copyOf(of persistence.Record, id string) persistence.Record {
	w.t.Helper()
	document := bytes.ReplaceAll(of.Document, []byte(of.ID), []byte(id))
	stored, err := w.journal.Record(context.Background(), of.Slot, of.Kind, of.ID)
	require.NoError(w.t, err)
	if bytes.HasPrefix(stored.Document, []byte(`{"sealed":`)) {
		sealer, err := seal.New(make([]byte, seal.KeyBytes), rand.Reader)
		require.NoError(w.t, err)
		sealed, err := sealer.Seal(of.Kind+"/"+id, document)
		require.NoError(w.t, err)
		document, err = json.Marshal(map[string][]byte{"sealed": sealed})
		require.NoError(w.t, err)
	}
	return persistence.Record{Kind: of.Kind, Workspace: of.Workspace, Parent: of.Parent, ID: id, Slot: of.Slot, New: true,
		Document: document}
}

// measureVisits requests an address over one connection, and reports the median. It returns
// the bytes of the last answer with its headers.
func measureVisits(b *testing.B, listener *fasthttputil.InmemoryListener, address, cookie string) (size int) {
	conn, err := listener.Dial()
	require.NoError(b, err)
	counted := &countedReads{Conn: conn}
	defer func() { require.NoError(b, conn.Close()) }()
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: purser.test\r\nCookie: %s=%s\r\n\r\n", address, sessionCookie,
		cookie)
	answers, took := bufio.NewReaderSize(counted, 64<<10), make([]time.Duration, 0, b.N)
	var answer fasthttp.Response
	for b.Loop() {
		before, start := counted.bytes, time.Now()
		_, err := conn.Write(request)
		require.NoError(b, err)
		require.NoError(b, answer.Read(answers))
		took = append(took, time.Since(start))
		size = counted.bytes - before
	}
	require.Equal(b, 200, answer.StatusCode())
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(size)/1024, "KB/page")
	return size
}

// countedReads counts the bytes that a connection receives.
type countedReads struct {
	net.Conn
	bytes int
}

// Read implements net.Conn.
func (c *countedReads) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes += n
	return n, err
}
