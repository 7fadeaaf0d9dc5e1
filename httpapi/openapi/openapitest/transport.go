package openapitest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
)

// maxKept bounds the stored complaints.
const maxKept = 20

// Judge checks the answers that pass through its transports, if their path is of the REST interface
// (/api/…). It stores faults, because a client may take an error for a broken connection. It is
// safe for concurrent use.
type Judge struct {
	description *Description

	mu         sync.Mutex
	judged     int
	complaints []error
}

// Judge checks an answer that has not passed through a transport of j. It returns the fault and
// does not store it.
func (j *Judge) Judge(a Answer) error { return j.description.Judge(a) }

// NewJudge makes a judge with a description.
func NewJudge(d *Description) *Judge { return &Judge{description: d} }

// Through wraps a transport. The judge checks the answers to paths under /api/ and stores the
// faults; the client gets every answer unchanged.
func (j *Judge) Through(next http.RoundTripper) http.RoundTripper {
	return &transport{judge: j, next: next}
}

type transport struct {
	judge *Judge
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A body that breaks off is passed on unchanged and
// unchecked. It fails only when the next transport does; a departure from the description is noted
// for the test.
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

// CloseIdleConnections is called by http.Client.
func (t *transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// broken ends a body that was read as the original ended: with its error, or with io.EOF when
// err is nil.
type broken struct{ err error }

// Read implements io.Reader. It returns no bytes, and the error with which the body broke off, or
// io.EOF.
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

// Verdict returns the number of checked answers and their faults.
func (j *Judge) Verdict() (judged int, complaints []error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.judged, j.complaints
}
