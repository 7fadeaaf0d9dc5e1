package adminport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"purser/cmd/purser/datadir"
)

// Ask sends a command to the admin port of the server that runs on a data directory, and decodes
// the answer. An answer of more than limit bytes is an error. It fails when no server runs on the
// directory, for an answer other than 200, whose text it quotes, and for one that is not JSON.
func Ask[T any](ctx context.Context, data, command string, question any, limit int64) (answer T, err error) {
	admin, err := datadir.PublishedAddress(data, "ADMIN_ADDR")
	if err != nil {
		return answer, err
	}
	body, err := json.Marshal(question)
	if err != nil {
		return answer, err
	}
	client, base := NewClient(admin)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/"+command, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer, fmt.Errorf("ask the running server: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err != nil {
		return answer, err
	}
	if resp.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("the running server answered %d: %s", resp.StatusCode, text)
	}
	var read T
	if err := json.Unmarshal(text, &read); err != nil {
		return answer, errors.New("the running server's answer is cut off or no JSON") // err would quote the answer
	}
	return read, nil
}
