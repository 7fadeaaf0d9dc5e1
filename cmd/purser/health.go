package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
)

const (
	healthWithin = 10 * time.Second // for a whole health check
	healthLimit  = 1 << 16          // bytes of the answer of /readyz
)

// healthCommand reports the readiness of a running server, for the health check of a container.
type healthCommand struct {
	DataDir string `name:"data-dir" env:"PURSER_DATA_DIR" default:"./data" help:"Data directory of the running server."`
	Addr    string `name:"addr" placeholder:"ADDRESS" help:"Admin port of the server instead, as --admin-addr of serve names it."`
}

// readiness is the answer of /readyz.
type readiness struct {
	Status  string   `json:"status"`
	Reasons []string `json:"reasons"`
}

// Run is `purser health`: it prints "ready". It fails with the reasons of a server that is not
// ready, and when no server answers within healthWithin.
func (c *healthCommand) Run(out io.Writer) error {
	admin := c.Addr
	if admin == "" {
		var err error
		if admin, err = datadir.PublishedAddress(c.DataDir, "ADMIN_ADDR"); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthWithin)
	defer cancel()
	answer, err := askReadiness(ctx, admin)
	if err != nil {
		return err
	}
	if answer.Status != "ready" {
		return fmt.Errorf("not ready: %s", strings.Join(answer.Reasons, "; "))
	}
	_, err = fmt.Fprintln(out, answer.Status)
	return err
}

// askReadiness reads /readyz of the admin port at host:port or unix:/path. It fails when no server
// answers and for an answer that is not a readiness; a server that is not ready is no error.
func askReadiness(ctx context.Context, admin string) (answer readiness, err error) {
	client, base := adminport.NewClient(admin)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return answer, fmt.Errorf("--addr %q is no address: %w", admin, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer, fmt.Errorf("no server answers at %s: %w", admin, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		return answer, fmt.Errorf("the server at %s answered %s to /readyz", admin, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, healthLimit))
	if err != nil {
		return answer, fmt.Errorf("read the readiness of %s: %w", admin, err)
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status == "" {
		return answer, errors.New("the answer of " + admin + " to /readyz is not a readiness")
	}
	return answer, nil
}
