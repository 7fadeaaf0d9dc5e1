package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// Limits of an answer.
const (
	answerWithin   = 10 * time.Second
	maxAnswerBytes = 4 << 20
	maxIdle        = 30 * time.Second // for a connection: less than the server waits before it closes one
	maxQuoted      = 300              // bytes of a body in words
	bufferBytes    = 16 << 10
)

// ErrLimited reports that the server's rate limits are on, so that a load would measure them.
var ErrLimited = errors.New("bench: the server limits how often it may be asked; start it with PURSER_RATE_LIMITS=off")

// wire is a keep-alive connection that carries one request at a time, for one goroutine.
type wire struct {
	address        string      // host:port
	security       *tls.Config // nil: plain
	bearer, cookie string
	conn           net.Conn
	used           time.Time // last
	in             *bufio.Reader
	out            *bufio.Writer
	request        fasthttp.Request
	response       fasthttp.Response
}

// newWire returns a wire that connects with its first request. Under https it trusts the
// authorities; nil stands for those of this machine.
func newWire(base string, authorities *x509.CertPool) *wire {
	w := &wire{in: bufio.NewReaderSize(nil, bufferBytes), out: bufio.NewWriterSize(nil, bufferBytes)}
	u, err := url.Parse(base)
	if err != nil {
		u = &url.URL{Host: base} // the first request fails with the address
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		w.security = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities, ServerName: u.Hostname()}
	}
	w.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	return w
}

// sendRequest sends a request, with headers in pairs, and returns the status and the answer, which
// the next request overwrites. After an error the outcome of the request is unknown, and the next
// request opens a new connection. A nil body sends none.
func (w *wire) sendRequest(method, path string, body []byte, headers ...string) (status int, answer []byte, err error) {
	if err = w.connectServer(); err != nil {
		return 0, nil, err
	}
	q := &w.request
	q.Reset()
	q.Header.DisableNormalizing()
	q.Header.SetMethod(method)
	q.Header.SetRequestURI(path)
	q.Header.SetHost(w.address)
	if w.bearer != "" {
		q.Header.Set("Authorization", "Bearer "+w.bearer)
	}
	if w.cookie != "" {
		q.Header.Set("Cookie", w.cookie)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	if body != nil {
		q.Header.SetContentType("application/json")
		q.SetBodyRaw(body)
	}
	if err = q.Write(w.out); err == nil {
		if err = w.out.Flush(); err == nil {
			err = w.response.ReadLimitBody(w.in, maxAnswerBytes)
		}
	}
	if err != nil {
		w.close()
		return 0, nil, err
	}
	if w.response.ConnectionClose() {
		w.close()
	}
	return w.response.StatusCode(), w.response.Body(), nil
}

// callJSON sends a request outside the loads, and reads the answer into a value unless that is nil.
// It fails with ErrLimited for a 429, and for any other status outside 200 to 299.
func (w *wire) callJSON(method, path string, body, into any, headers ...string) (err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	status, answer, err := w.sendRequest(method, path, text, headers...)
	switch {
	case err != nil:
		return fmt.Errorf("bench: %s %s at %s: %w", method, path, w.address, err)
	case status == fasthttp.StatusTooManyRequests:
		return ErrLimited
	case status/100 != 2:
		return fmt.Errorf("bench: %s %s at %s answered %d %s", method, path, w.address, status, quoteBody(answer))
	case into != nil:
		return json.Unmarshal(answer, into)
	}
	return nil
}

// lastRequest returns the method, path and body of the last request. It leaves out the headers,
// which have the secret.
func (w *wire) lastRequest() string {
	q := &w.request
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", q.Header.Method(), q.Header.RequestURI(), quoteBody(q.Body())))
}

func quoteBody(body []byte) []byte { return body[:min(len(body), maxQuoted)] }

// connectServer opens a connection unless one is open that was used within maxIdle. It fails when
// the server does not accept the connection.
func (w *wire) connectServer() (err error) {
	now := time.Now()
	if now.Sub(w.used) > maxIdle {
		w.close()
	}
	w.used = now
	if w.conn == nil {
		conn, err := net.DialTimeout("tcp", w.address, answerWithin)
		if err != nil {
			return err
		}
		if w.conn = conn; w.security != nil {
			w.conn = tls.Client(conn, w.security) // the handshake comes with the first write
		}
		w.in.Reset(w.conn)
		w.out.Reset(w.conn)
	}
	return w.conn.SetDeadline(now.Add(answerWithin))
}

func (w *wire) close() {
	if w.conn != nil {
		_ = w.conn.Close() // the exchange is over
		w.conn = nil
	}
}

// textField returns a string without escapes by its name in a JSON object, nil when there is none.
// The names in the answers that it reads are unique.
func textField(object []byte, name string) []byte {
	value, ok := valueOf(object, name)
	if !ok || len(value) == 0 || value[0] != '"' {
		return nil
	}
	text, _, ended := bytes.Cut(value[1:], []byte(`"`))
	if !ended {
		return nil
	}
	return text
}

// centsField returns a whole number by its name.
func centsField(object []byte, name string) (cents int64, ok bool) {
	value, ok := valueOf(object, name)
	if !ok {
		return 0, false
	}
	negative := len(value) > 0 && value[0] == '-'
	if negative {
		value = value[1:]
	}
	digit := 0
	for ; digit < len(value) && value[digit] >= '0' && value[digit] <= '9'; digit++ {
		cents = 10*cents + int64(value[digit]-'0')
	}
	if negative {
		cents = -cents
	}
	return cents, digit > 0
}

// availableDollars returns the available cents of a treasury's dollars.
func availableDollars(treasury []byte) (cents int64, ok bool) {
	return centsField(treasury[max(0, bytes.Index(treasury, []byte(`"usd"`))):], "availableCents")
}

// valueOf returns the text after a name and its colon.
func valueOf(object []byte, name string) ([]byte, bool) {
	for rest := object; ; {
		at := bytes.IndexByte(rest, '"')
		if at < 0 {
			return nil, false
		}
		rest = rest[at+1:]
		if len(rest) <= len(name) || string(rest[:len(name)]) != name || rest[len(name)] != '"' {
			continue
		}
		if value := bytes.TrimLeft(rest[len(name)+1:], " \t\r\n"); len(value) > 0 && value[0] == ':' {
			return bytes.TrimLeft(value[1:], " \t\r\n"), true
		}
	}
}
