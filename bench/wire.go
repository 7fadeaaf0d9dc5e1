package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Limits of an answer.
const (
	answerWithin   = 10 * time.Second
	maxAnswerBytes = 4 << 20
	maxHeaderBytes = 16 << 10
	maxIdle        = 30 * time.Second // for a connection: less than the server waits before it closes one
)

// wire is a keep-alive connection that carries one request at a time, for one goroutine. It
// implements only the part of HTTP/1.1 that the interface uses, because a slower client would
// measure itself. It allocates nothing once its buffers have grown.
type wire struct {
	address  string      // host:port
	security *tls.Config // nil: plain
	fixed    []byte      // the headers of every request, after the path
	conn     net.Conn
	used     time.Time // last
	in       *bufio.Reader
	out      []byte
	answer   []byte
}

// newWire returns a wire that connects with its first request. The URL is a validated base URL.
// Under https the authorities are those of Target.Authorities.
func newWire(base, bearer string, authorities *x509.CertPool) *wire {
	w := &wire{in: bufio.NewReaderSize(nil, maxHeaderBytes)}
	u, err := url.Parse(base)
	if err != nil {
		panic("BUG: a URL that was validated cannot be read: " + base)
	}
	port := "80"
	if u.Scheme == "https" {
		port, w.security = "443", clientTLS(authorities)
		w.security.ServerName = u.Hostname()
	}
	w.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	w.setBearer(bearer)
	return w
}

// clientTLS returns the TLS settings of a client that trusts the authorities. nil stands for the
// authorities of this machine.
func clientTLS(authorities *x509.CertPool) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}
}

// setBearer sets the bearer secret of later requests.
func (w *wire) setBearer(bearer string) {
	w.fixed = fmt.Appendf(w.fixed[:0], " HTTP/1.1\r\nHost: %s\r\n", w.address)
	if bearer != "" {
		w.fixed = fmt.Appendf(w.fixed, "Authorization: Bearer %s\r\n", bearer)
	}
}

// sendRequest sends a request and returns the status and the answer, which the next request
// overwrites. After an error the outcome of the request is unknown, and the next request opens a
// new connection. A nil body sends none.
func (w *wire) sendRequest(method, path string, body []byte) (status int, answer []byte, err error) {
	if err = w.ensureConnected(); err != nil {
		return 0, nil, err
	}
	w.out = append(w.out[:0], method...)
	w.out = append(append(w.out, ' '), path...)
	w.out = append(w.out, w.fixed...)
	if body != nil {
		w.out = append(w.out, "Content-Type: application/json\r\nContent-Length: "...)
		w.out = strconv.AppendInt(w.out, int64(len(body)), 10)
		w.out = append(w.out, "\r\n"...)
	}
	w.out = append(append(w.out, "\r\n"...), body...)
	if _, err = w.conn.Write(w.out); err == nil {
		status, err = w.readResponse()
	}
	if err != nil {
		w.closeConnection()
	}
	return status, w.answer, err
}

// lastRequest returns the method, path and body of the last request. It leaves out the headers,
// which have the secret.
func (w *wire) lastRequest() string {
	head, body, _ := bytes.Cut(w.out, []byte("\r\n\r\n"))
	line, _, _ := bytes.Cut(head, []byte(" HTTP/1.1"))
	return strings.TrimSpace(string(line) + " " + string(body[:min(len(body), maxRequest)]))
}

// ensureConnected opens a connection unless one is open that was used within maxIdle. It fails when
// the server does not accept the connection.
func (w *wire) ensureConnected() (err error) {
	now := time.Now()
	if now.Sub(w.used) > maxIdle {
		w.closeConnection()
	}
	w.used = now
	if w.conn == nil {
		if w.conn, err = net.DialTimeout("tcp", w.address, answerWithin); err != nil {
			w.conn = nil
			return err
		}
		if w.security != nil {
			w.conn = tls.Client(w.conn, w.security) // the handshake comes with the first write
		}
		w.in.Reset(w.conn)
	}
	return w.conn.SetDeadline(now.Add(answerWithin))
}

func (w *wire) closeConnection() {
	if w.conn != nil {
		_ = w.conn.Close() // the exchange is over
		w.conn = nil
	}
}

var errAnswer = errors.New("bench: the answer is no HTTP/1.1 with a Content-Length")

// readResponse reads a response of HTTP/1.1 into w.answer and returns its status. It fails for a
// response without a length, for one longer than maxAnswerBytes, and when the connection ends.
func (w *wire) readResponse() (int, error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, errAnswer
	}
	status, ok := parseDigits(line[9:12])
	length, last, err := w.readHeader()
	switch {
	case err != nil:
		return 0, err
	case !ok || length < 0 || length > maxAnswerBytes:
		return 0, errAnswer
	}
	if cap(w.answer) < length {
		w.answer = make([]byte, length)
	}
	w.answer = w.answer[:length]
	if _, err = io.ReadFull(w.in, w.answer); err != nil {
		return 0, err
	}
	if last {
		w.closeConnection()
	}
	return status, nil
}

// readHeader reads the headers. It returns the length of the body, -1 when none is given, and
// whether the server closes the connection. It fails when the connection ends.
func (w *wire) readHeader() (length int, last bool, err error) {
	length = -1
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return length, last, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch value = bytes.TrimSpace(value); {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if n, ok := parseDigits(value); ok {
				length = n
			}
		case bytes.EqualFold(name, []byte("Connection")):
			last = bytes.EqualFold(value, []byte("close"))
		}
	}
}

// parseDigits reads a number of plain digits. ok is false for any other text and for a number over
// ten times maxAnswerBytes.
func parseDigits(text []byte) (n int, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' || n > maxAnswerBytes {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, len(text) > 0
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

// dollarsOf returns the text of a treasury from its dollars on.
func dollarsOf(treasury []byte) []byte {
	return treasury[max(0, bytes.Index(treasury, []byte(`"usd"`))):]
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
