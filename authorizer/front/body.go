package front

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http/httputil"
	"strconv"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// Limits of reading bodies.
const (
	// skipBytes is the longest rest of an unread body that is discarded to keep its connection. A
	// longer one closes the connection: to read on would cost what the refusal saves.
	skipBytes = pieceBytes
	// firstBytes is the memory of a body before its first byte has arrived.
	firstBytes = 512
)

// DefaultBudget is the memory that the bodies of requests under way may take, where no other is
// set.
const DefaultBudget = 64 << 20

// ErrBudget means that the bodies of other requests take all of the budget.
var ErrBudget = errors.New("no memory left for bodies")

// errFraming means that the length of a body is unclear, or that its chunks are malformed.
var errFraming = errors.New("the body's framing is not valid")

// Budget is memory for the bodies of requests under way, shared by all connections that claim from
// it. Safe for concurrent use.
type Budget struct {
	max     int64
	used    atomic.Int64
	refused atomic.Int64
}

// NewBudget makes a budget of so many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{max: bytes} }

// Max, Used and Refused are the size of the budget, what of it is claimed, and how many claims it
// had no room for.
func (b *Budget) Max() int64     { return b.max }
func (b *Budget) Used() int64    { return b.used.Load() }
func (b *Budget) Refused() int64 { return b.refused.Load() }

func (b *Budget) filledShare() float64 { return float64(b.used.Load()) / float64(b.max) }

// claimBytes takes n bytes of the budget before they are allocated. It returns false, takes nothing
// and counts a refusal when fewer are free.
func (b *Budget) claimBytes(n int) bool {
	for {
		used := b.used.Load()
		if used+int64(n) > b.max {
			b.refused.Add(1)
			return false
		}
		if b.used.CompareAndSwap(used, used+int64(n)) {
			return true
		}
	}
}

func (b *Budget) releaseBytes(n int) { b.used.Add(-int64(n)) }

// withholdBody has fasthttp treat every request as one without a body, and leaves Expect to
// ReadBody. RawHeaders keep both fields.
func withholdBody(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if length := header.ContentLength(); length > 0 || length == -1 {
		header.SetContentLength(0)
	}
	header.Del(fasthttp.HeaderExpect)
	return fasthttp.RequestConfig{}
}

// body is that of the request that a connection handles.
type body struct {
	length  int64 // bytes; -1 when it comes in chunks
	unclear bool  // the header does not say where it ends
	expects bool  // the sender waits for 100 Continue
	read    bool  // all of it was read
	claimed int   // bytes of the budget
}

// readFraming reads the body's framing from the header. fasthttp has refused invalid framing, such
// as two lengths.
func (b *body) readFraming(ctx *fasthttp.RequestCtx) {
	*b = body{}
	given := 0
	for line := range bytes.Lines(ctx.Request.Header.RawHeaders()) {
		// Behind a line without "\r" fasthttp may read beyond the head.
		b.unclear = b.unclear || !bytes.HasSuffix(line, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimSpace(value)
		switch {
		case equalFold(name, fasthttp.HeaderContentLength):
			length, err := strconv.ParseUint(string(value), 10, 62)
			b.length, b.unclear = int64(length), b.unclear || err != nil
			given++
		case equalFold(name, fasthttp.HeaderTransferEncoding):
			b.length, b.unclear = -1, b.unclear || !equalFold(value, "chunked")
			given++
		case equalFold(name, fasthttp.HeaderExpect):
			b.expects = ctx.Request.Header.IsHTTP11() && equalFold(value, "100-continue")
		}
	}
	b.unclear = b.unclear || given > 1
	b.read = b.length == 0 && !b.unclear
}

func equalFold(text []byte, name string) bool {
	return len(text) == len(name) && bytes.EqualFold(text, []byte(name))
}

// ReadBody reads the body of a request and sets it for fasthttp's methods too. The handler owns it
// until the handler returns. The memory is claimed from the server's budget as the bytes arrive. A
// body over the limit is fasthttp.ErrBodyTooLarge, and an announced length over it is refused
// unread; a full budget is ErrBudget, and counts as a refusal. A second call returns the same body.
// After an error the connection ends with the answer, unless the rest of the body is short.
func ReadBody(ctx *fasthttp.RequestCtx, limit int) ([]byte, error) {
	c, ok := ctx.Conn().(*connection)
	if !ok || c.server.options.Bodies == nil || c.body.read {
		if text := ctx.PostBody(); len(text) <= limit {
			return text, nil
		}
		return nil, fasthttp.ErrBodyTooLarge
	}
	b := &c.body
	switch {
	case b.unclear:
		return nil, errFraming
	case b.length > int64(limit):
		return nil, fasthttp.ErrBodyTooLarge
	}
	c.waitsSince.Store(c.server.sinceEpoch())
	text, err := c.readBody(ctx, limit)
	c.waitsSince.Store(0)
	if err != nil {
		if errors.Is(err, ErrBudget) {
			CountRefusal(ctx)
		} else {
			b.unclear = true // where the next request begins is not known
		}
		return nil, err
	}
	b.read = true
	ctx.Request.SetBodyRaw(text)
	return text, nil
}

// Arrived returns a body that has arrived whole with the head, and nil otherwise. It never waits.
// The bytes are valid until the next read.
func Arrived(ctx *fasthttp.RequestCtx) []byte {
	c, ok := ctx.Conn().(*connection)
	switch {
	case !ok || c.server.options.Bodies == nil || c.body.read:
		return ctx.PostBody()
	case c.body.unclear || c.body.length < 0 || c.body.length > int64(len(c.ahead)):
		return nil
	}
	return c.ahead[:c.body.length]
}

// readBody returns the body of a request of at most limit bytes, and first sends 100 Continue to a
// peer that expects it. It fails when the peer sends a longer, malformed or cut body, or sends too
// slowly.
func (c *connection) readBody(ctx *fasthttp.RequestCtx, limit int) ([]byte, error) {
	if c.body.expects && len(c.ahead) == 0 {
		if err := c.limitWrite(); err != nil {
			return nil, err
		}
		if _, err := c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return nil, err
		}
	}
	c.body.expects = false
	if c.body.length < 0 {
		return c.readChunks(ctx, limit)
	}
	whole := int(c.body.length)
	return c.gatherBody(onward{c}, whole, whole)
}

// gatherBody reads up to limit bytes into memory that it claims as they come. It ends after want
// bytes, or at the end of the reader when want is -1; one byte over the limit is too much. It fails
// with ErrBodyTooLarge for that byte, with ErrBudget when all bodies together have too much memory,
// and with the connection's error.
func (c *connection) gatherBody(from io.Reader, want, limit int) ([]byte, error) {
	var text []byte
	for len(text) != want {
		if len(text) == cap(text) {
			grown, err := c.growBody(text, limit)
			if err != nil {
				return nil, err
			}
			text = grown
		}
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if c.body.length > 0 {
			c.body.length -= int64(n)
		}
		switch {
		case want < 0 && len(text) > limit:
			return nil, fasthttp.ErrBodyTooLarge
		case want < 0 && errors.Is(err, io.EOF):
			return text, nil
		case errors.Is(err, io.EOF) && len(text) != want:
			return nil, io.ErrUnexpectedEOF
		case err != nil && len(text) != want:
			return nil, err
		}
	}
	return text, nil
}

// growBody doubles the memory of a body, to one byte over the limit at most. The first size holds
// the bytes that have arrived, and at least firstBytes. It fails with ErrBudget when the budget of
// all bodies is used up.
func (c *connection) growBody(text []byte, limit int) ([]byte, error) {
	size := min(max(firstBytes, len(c.ahead), 2*cap(text)), limit+1)
	if c.body.length > 0 {
		size = min(size, len(text)+int(c.body.length))
	}
	if !c.server.options.Bodies.claimBytes(size) {
		return nil, ErrBudget
	}
	grown := make([]byte, len(text), size)
	copy(grown, text)
	c.body.claimed += size - cap(text)
	c.server.options.Bodies.releaseBytes(cap(text))
	return grown, nil
}

// onward is a connection as a reader of heads and bodies.
type onward struct{ *connection }

func (o onward) Read(b []byte) (int, error) { return o.readOn(b) }

// readChunks reads a chunked body and its trailer, which has at most pieceBytes. It fails with the
// errors of gatherBody, and for malformed chunks or trailers.
func (c *connection) readChunks(ctx *fasthttp.RequestCtx, limit int) ([]byte, error) {
	source := bufio.NewReaderSize(onward{c}, pieceBytes)
	text, err := c.gatherBody(httputil.NewChunkedReader(source), -1, limit)
	if err == nil {
		err = ctx.Request.Header.ReadTrailer(source)
	}
	if err != nil {
		return nil, err
	}
	if n := source.Buffered(); n > 0 { // bytes of the next request
		next, err := source.Peek(n)
		if err != nil {
			return nil, err
		}
		c.ahead = append(bytes.Clone(next), c.ahead...)
	}
	return text, nil
}

// endBody releases the memory of a body. A short unread rest is skipped before the next request.
// With a longer one the connection ends and lingers, so that its peer can read the answer.
func (c *connection) endBody(ctx *fasthttp.RequestCtx) {
	b := &c.body
	if b.claimed > 0 {
		c.server.options.Bodies.releaseBytes(b.claimed)
	}
	left := b.length
	*b = body{read: b.read, unclear: b.unclear, expects: b.expects, length: left}
	switch {
	case b.read:
	case b.unclear, b.expects, left < 0, left > skipBytes, ctx.Response.ConnectionClose(),
		ctx.Request.ConnectionClose():
		ctx.SetConnectionClose()
		c.unread.Store(true)
	default:
		c.skip = left
	}
}
