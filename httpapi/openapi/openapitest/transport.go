package openapitest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
)

// maxKept bounds the complaints that are kept; the first ones say enough.
const maxKept = 20

// Judge judges what comes back through transports, if it is of a path of the REST interface
// (/api/…). What it finds wrong it keeps, for a client may take an error for a broken connection.
// It is safe for concurrent use.
type Judge struct {
	description *Description

	mu         sync.Mutex
	judged     int
	complaints []error
}

// Judge judges an answer that came another way, at once.
func (j *Judge) Judge(a Answer) error { return j.description.Judge(a) }

// NewJudge makes a judge that goes by a description.
func NewJudge(d *Description) *Judge { return &Judge{description: d} }

// Through is another transport, with the judge listening.
func (j *Judge) Through(next http.RoundTripper) http.RoundTripper {
	return &transport{judge: j, next: next}
}

type transport struct {
	judge *Judge
	next  http.RoundTripper
}

// RoundTrip is http.RoundTripper's. A body that breaks off is handed on as it came, and not judged.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil || !strings.HasPrefix(r.URL.Path, "/api/") {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	closed := resp.Body.Close()
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), broken{err}))
	if err == nil && closed == nil {
		t.judge.noteFault(t.judge.description.Judge(Answer{Method: r.Method, Path: r.URL.RequestURI(),
			Status:      resp.StatusCode,
			ContentType: resp.Header.Get("Content-Type"), Body: body}))
	}
	return resp, nil
}

// CloseIdleConnections is what http.Client asks of its transport.
func (t *transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// broken ends a body the way it ended.
type broken struct{ err error }

// Read is io.Reader's.
func (b broken) Read([]byte) (int, error) {
	if b.err == nil {
		return 0, io.EOF
	}
	return 0, b.err
}

func (j *Judge) noteFault(complaint error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.judged++
	if complaint != nil && len(j.complaints) < maxKept {
		j.complaints = append(j.complaints, complaint)
	}
}

// Verdict returns how many answers were judged and what was wrong with them.
func (j *Judge) Verdict() (judged int, complaints []error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.judged, j.complaints
}
