package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Limits of requests to a node.
const (
	callTimeout  = 20 * time.Second
	maxAnswer    = 64 << 20 // bytes: a whole block, or a page of logs
	maxBatch     = 100      // calls in one request
	maxErrorText = 200      // bytes of a node's error message in an error
	maxRefusal   = 1 << 20  // bytes read of an answer with an error status
)

// rpcClient is a JSON-RPC client of one node. The URL may hold credentials and is in no error.
type rpcClient struct {
	http     *http.Client
	url      string
	user     *url.Userinfo
	maxBytes int64
}

// newRPC returns a client of the node at a URL. A nil client is one with a timeout of callTimeout.
// The rpcClient uses a copy of the client that follows no redirect. A user and a password in the
// URL are sent as basic authentication. It fails for a URL that is not http or https.
func newRPC(node string, client *http.Client) (*rpcClient, error) {
	u, err := url.Parse(node)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the node's URL is not an http or https URL")
	}
	own := http.Client{Timeout: callTimeout}
	if client != nil {
		own = *client
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return errRedirect }
	user := u.User
	u.User = nil
	return &rpcClient{http: &own, url: u.String(), user: user, maxBytes: maxAnswer}, nil
}

// errRedirect reports an answer that redirects the request. A node could otherwise lead it to any
// server that this process reaches, such as its own admin port.
var errRedirect = errors.New("the node answers with a redirect, and none is followed: configure the node's own URL")

// errTooLong reports an answer of more than maxAnswer bytes, or a list in it of more elements than
// the list's limit.
var errTooLong = errors.New("the node's answer is too long")

// httpStatus is the status of an answer that is neither a success nor a JSON-RPC error.
type httpStatus int

func (s httpStatus) Error() string { return fmt.Sprintf("the node answers HTTP %d", int(s)) }

type rpcCall struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

// rpcAnswer is one answer of a batch.
type rpcAnswer struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// rpcError is a node's answer instead of a result.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string {
	text := e.Message
	if len(text) > maxErrorText {
		text = text[:maxErrorText]
	}
	return fmt.Sprintf("the node answers %d: %q", e.Code, text)
}

// callMethod calls one method whose result has no list. A null result leaves into unchanged. It
// fails as streamMethod does.
func (c *rpcClient) callMethod(ctx context.Context, into any, method string, params ...any) error {
	var wrong error
	err := c.streamMethod(ctx, func(d *json.Decoder) error {
		err := d.Decode(into)
		if _, typed := errors.AsType[*json.UnmarshalTypeError](err); typed {
			wrong, err = err, nil // the value is read: the node's error may follow, and it says more
		}
		return err
	}, method, params...)
	if err == nil && wrong != nil {
		err = fmt.Errorf("%s: %w", method, wrong)
	}
	return err
}

// streamMethod calls one method and passes its result to take while the answer arrives. It fails
// with the node's *rpcError, with the errors of postJSON and take, and for an answer that is not
// JSON-RPC or has no result. The error names the method. take may have run before it fails.
func (c *rpcClient) streamMethod(ctx context.Context, take member, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	var refused *rpcError
	var resulted bool
	err := c.postJSON(ctx, rpcCall{"2.0", 1, method, params}, func(d *json.Decoder) error {
		var taken error
		_, err := readObject(d, members{"error": decodeInto(&refused), "result": func(d *json.Decoder) error {
			resulted, taken = true, take(d)
			return taken
		}})
		if err != nil && taken == nil {
			err = fmt.Errorf("the answer is not JSON-RPC: %w", err)
		}
		return err
	})
	switch {
	case err != nil:
	case refused != nil:
		err = refused
	case !resulted:
		err = errors.New("the answer has neither a result nor an error")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// callBatch calls one method with each of the params, maxBatch per request, and passes each result
// to take as it arrives, in the node's order. It fails with the errors of postJSON and take, with
// the node's *rpcError, and for a batch in which a call has no answer or two.
func (c *rpcClient) callBatch(ctx context.Context, method string, params [][]any,
	take func(i int, result json.RawMessage) error) error {
	at := 0
	for part := range slices.Chunk(params, maxBatch) {
		calls := make([]rpcCall, len(part))
		for i := range part {
			calls[i] = rpcCall{"2.0", i, method, part[i]}
		}
		answered := make([]bool, len(part))
		err := c.postJSON(ctx, calls, listOf(len(part), func(a *rpcAnswer) error {
			switch {
			case a.ID == nil || *a.ID < 0 || *a.ID >= len(part) || answered[*a.ID]:
				return errors.New("an answer to no call of the batch")
			case a.Error != nil:
				return a.Error
			case len(a.Result) == 0:
				return errors.New("the answer has neither a result nor an error")
			}
			answered[*a.ID] = true
			return take(at+*a.ID, a.Result)
		}))
		if err == nil && slices.Contains(answered, false) {
			err = errors.New("a call of the batch has no answer")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		at += len(part)
	}
	return nil
}

// postJSON posts a document to the node and passes the answer to take while it arrives. It fails
// when the node does not answer within callTimeout, answers a status other than 200 without an
// error in its body, or sends more than maxBytes, and with the error of take. Errors do not contain
// the node's URL, which may hold a key.
func (c *rpcClient) postJSON(ctx context.Context, body any, take member) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(text))
	if err != nil {
		return errors.New("the node cannot be asked")
	}
	req.Header.Set("Content-Type", "application/json")
	if c.user != nil {
		password, _ := c.user.Password()
		req.SetBasicAuth(c.user.Username(), password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the URL may hold a key
		}
		return err
	}
	defer resp.Body.Close()
	answer := io.Reader(&boundedReader{from: resp.Body, left: c.maxBytes, most: c.maxBytes})
	if resp.StatusCode != http.StatusOK {
		// bitcoind answers an error with 500 or 404 and names it in the body
		refusal, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		if err != nil {
			return err
		}
		if !bytes.Contains(refusal, []byte(`"error"`)) {
			return httpStatus(resp.StatusCode)
		}
		answer = bytes.NewReader(refusal)
	}
	return decodeWhole(answer, take)
}
