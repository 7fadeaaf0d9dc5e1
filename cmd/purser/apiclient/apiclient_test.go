package apiclient_test

import (
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/apiclient"
)

// failing is a transport whose requests end with an error.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// A connection that the server closes without an answer has one of several errors, depending on the
// moment. All of them name the setting that may be the cause.
func TestAClosedConnectionNamesTheLimitOfRefusals(t *testing.T) {
	send := func(err error) error {
		client := apiclient.New("http://127.0.0.1:1", "")
		client.HTTP.Transport = failing{err}
		_, err = client.Send(t.Context(), apiclient.Request{Method: "GET", Path: "/"})
		return err
	}
	for _, closed := range []error{io.EOF, syscall.ECONNRESET, syscall.EPIPE, errors.New("http: server closed idle connection")} {
		require.ErrorContains(t, send(closed), "PURSER_REFUSALS", closed)
	}
	require.ErrorContains(t, send(syscall.ECONNREFUSED), "make run starts one")
}
