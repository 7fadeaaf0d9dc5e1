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
)

// rpcClient is a JSON-RPC client of one node. The URL may hold credentials and is in no error.
type rpcClient struct {
	http     *http.Client
	url      string
	user     *url.Userinfo
	maxBytes int64
}

func newRPC(node string, client *http.Client) (*rpcClient, error) {
	u, err := url.Parse(node)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the node's URL is not an http or https URL")
	}
	if client == nil {
		client = &http.Client{Timeout: callTimeout}
	}
	user := u.User
	u.User = nil
	return &rpcClient{http: client, url: u.String(), user: user, maxBytes: maxAnswer}, nil
}

// errTooLong reports an answer that is longer than maxAnswer.
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

// callMethod calls one method. A null result leaves into unchanged.
func (c *rpcClient) callMethod(ctx context.Context, into any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := c.postJSON(ctx, rpcCall{"2.0", 1, method, params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	var a rpcAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("%s: the answer is not JSON-RPC: %w", method, err)
	}
	return a.decodeResult(method, into)
}

func (a *rpcAnswer) decodeResult(method string, into any) error {
	switch {
	case a.Error != nil:
		return fmt.Errorf("%s: %w", method, a.Error)
	case len(a.Result) == 0:
		return fmt.Errorf("%s: the answer has neither a result nor an error", method)
	}
	if err := json.Unmarshal(a.Result, into); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// callBatch calls one method with each of the params, maxBatch per request, and passes each result
// to take in order.
func (c *rpcClient) callBatch(ctx context.Context, method string, params [][]any,
	take func(i int, result json.RawMessage) error) error {
	at := 0
	for part := range slices.Chunk(params, maxBatch) {
		calls := make([]rpcCall, len(part))
		for i := range part {
			calls[i] = rpcCall{"2.0", i, method, part[i]}
		}
		body, err := c.postJSON(ctx, calls)
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		var answers []rpcAnswer
		if err := json.Unmarshal(body, &answers); err != nil {
			return fmt.Errorf("%s: the answer is not a batch: %w", method, err)
		}
		results := make([]json.RawMessage, len(part))
		for _, a := range answers {
			if a.ID == nil || *a.ID < 0 || *a.ID >= len(part) {
				return fmt.Errorf("%s: an answer to no call of the batch", method)
			}
			if err := a.decodeResult(method, &results[*a.ID]); err != nil {
				return err
			}
		}
		for i, result := range results {
			if err := take(at+i, result); err != nil {
				return fmt.Errorf("%s: %w", method, err)
			}
		}
		at += len(part)
	}
	return nil
}

func (c *rpcClient) postJSON(ctx context.Context, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("the node cannot be asked")
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
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, c.maxBytes+1))
	switch err = errors.Join(err, resp.Body.Close()); {
	case err != nil:
		return nil, err
	case int64(len(answer)) > c.maxBytes:
		return nil, fmt.Errorf("%w: over %d bytes", errTooLong, c.maxBytes)
	// bitcoind answers an error with 500 or 404 and names it in the body
	case resp.StatusCode != http.StatusOK && !bytes.Contains(answer, []byte(`"error"`)):
		return nil, httpStatus(resp.StatusCode)
	}
	return answer, nil
}
