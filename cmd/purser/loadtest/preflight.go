package loadtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"purser/bench"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
)

// Limits of the checks before a run.
const (
	preflightWithin = time.Second // all checks together
	preflightAnswer = 4 << 10     // bytes of an answer that are read
	preflightQuoted = 200         // bytes of an answer in an error
)

// unissuedToken is the token of a card that no server has.
const unissuedToken = "ctok_0000000000000000000000000000"

// targetFlags are the flags that set a target. Errors name them.
type targetFlags struct{ rest, network, secret string }

var (
	thisFlags = targetFlags{rest: "--http-addr", network: "--authorizer-addr",
		secret: "--network-secret-file or PURSER_NETWORK_SECRET"}
	otherFlags = targetFlags{rest: "--other-http-addr", network: "--other",
		secret: "--other-network-secret or PURSER_OTHER_NETWORK_SECRET"}
)

// check is one condition of a run. Its error says what to do.
type check func(ctx context.Context) error

// runChecks does the checks one after another, within a duration in all. It fails with the first
// error of a check. `purser bench` calls it before every run.
func runChecks(ctx context.Context, within time.Duration, checks ...check) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %s", within))
	defer cancel()
	for _, c := range checks {
		if err := c(ctx); err != nil {
			return err
		}
	}
	return nil
}

// targetChecks are the checks of a running server: both ports answer, and the secret is accepted.
func targetChecks(t bench.Target, flags targetFlags) []check {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: t.Authorities}}}
	network := func(ctx context.Context) error { return checkNetwork(ctx, client, t, flags) }
	if t.REST == "" {
		return []check{network}
	}
	return []check{func(ctx context.Context) error { return checkREST(ctx, client, t, flags) }, network}
}

// checkREST reads the treasury without a key, which Purser refuses with 401. Any other answer is an
// error.
func checkREST(ctx context.Context, client *http.Client, t bench.Target, flags targetFlags) error {
	status, answer, err := sendProbe(ctx, client, http.MethodGet, t.REST+"/api/treasury", "", "")
	switch {
	case err != nil:
		return unansweredPort("the REST port", t.REST, flags.rest, err)
	case status == http.StatusServiceUnavailable:
		return fmt.Errorf("the server at %s is not ready: %d %s; wait until `purser health` succeeds", t.REST, status,
			answer)
	case status != http.StatusUnauthorized:
		return fmt.Errorf("%s is not a purser's REST port: GET /api/treasury without a key answered %d %s, want 401; "+
			"name the REST address with %s", t.REST, status, answer, flags.rest)
	}
	return nil
}

// checkNetwork sends an authorization of zero cents for a card that no server has, which changes
// nothing. The answer must be a decision about this message.
func checkNetwork(ctx context.Context, client *http.Client, t bench.Target, flags targetFlags) error {
	id := "bench-preflight-" + strings.ToLower(rand.Text())
	body := fmt.Sprintf(`{"id":%q,"cardToken":%q,"amountCents":0,"currency":"USD",`+
		`"merchant":{"id":"m-1","name":"Merchant 1","mcc":"5411","country":"US"}}`, id, unissuedToken)
	status, answer, err := sendProbe(ctx, client, http.MethodPost, t.Network+"/v1/authorizations", t.Secret, body)
	var decided struct{ ID, Decision string }
	switch {
	case err != nil:
		return unansweredPort("the card network's port", t.Network, flags.network, err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("the card network's port at %s refuses the secret: %d %s; "+
			"give the secret that the server was started with, with %s",
			t.Network, status, answer, flags.secret)
	case status == http.StatusServiceUnavailable:
		return fmt.Errorf("the server at %s is not ready: %d %s; wait until it decides", t.Network, status, answer)
	case status != http.StatusOK || json.Unmarshal(answer, &decided) != nil || decided.ID != id ||
		decided.Decision == "":
		return fmt.Errorf("%s is not a card network's port: POST /v1/authorizations answered %d %s, "+
			"want a decision on %s; name its address with %s", t.Network, status, answer, id, flags.network)
	}
	return nil
}

// unansweredPort returns the error of a port without an answer.
func unansweredPort(port, at, flag string, err error) error {
	return fmt.Errorf("%s at %s does not answer: %w; start the server, or name its address with %s", port, at, err,
		flag)
}

// sendProbe sends one request and returns the status and the beginning of the answer. It fails when
// no answer comes until ctx ends, with the cause of that.
func sendProbe(ctx context.Context, client *http.Client, method, at, secret, body string) (status int,
	answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if secret != "" {
		request.Header.Set("Authorization", "Bearer "+secret)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err == nil {
		defer response.Body.Close()
		answer, err = io.ReadAll(io.LimitReader(response.Body, preflightAnswer))
	}
	switch {
	case ctx.Err() != nil:
		return 0, nil, context.Cause(ctx)
	case err != nil:
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // callers name the address
		}
		return 0, nil, err
	}
	return response.StatusCode, answer[:min(len(answer), preflightQuoted)], nil
}

// checkDisk makes a directory if it is missing, and requires a number of free bytes and a synced
// write in it. flag names the directory.
func checkDisk(dir, flag string, need int64) check {
	return func(ctx context.Context) error {
		advice := "name a directory on another disk with " + flag
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("%s cannot be made: %w; %s", dir, err, advice)
		}
		free, err := datadir.FreeBytes(dir)
		if err != nil {
			return fmt.Errorf("the free space of %s is not known: %w; %s", dir, err, advice)
		}
		if free < need {
			return fmt.Errorf("the disk of %s has %d MiB free, and the run needs %d MiB; free some, or %s", dir,
				free>>20, need>>20, advice)
		}
		written := make(chan error, 1)
		go func() { written <- writeSynced(dir) }()
		select {
		case err := <-written:
			if err != nil {
				return fmt.Errorf("%s cannot be written: %w; %s", dir, err, advice)
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("a synced write to %s: %w; %s", dir, context.Cause(ctx), advice)
		}
	}
}

// writeSynced writes and syncs a file in a directory and removes it. It fails with the disk's
// error.
func writeSynced(dir string) (err error) {
	file, err := os.CreateTemp(dir, "purser-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	if _, err := file.WriteString(unissuedToken); err != nil {
		return err
	}
	return file.Sync()
}

// ownDisk checks the data directory of a server of the run's own, or the directory of temporary
// ones.
func ownDisk(dir string) check { return checkDisk(cmp.Or(dir, os.TempDir()), "--own-dir", ownNeed()) }

// ownNeed returns the free bytes that a server of the run's own needs: its reserve, below which it
// refuses approvals, and the measured writes. The start of the server refuses a wrong reserve.
func ownNeed() int64 {
	var f settings.Faults
	text := cmp.Or(os.Getenv("PURSER_DISK_RESERVE"), settings.DefaultDiskReserve)
	return f.Bytes("PURSER_DISK_RESERVE", text, settings.MinDiskReserve) + bench.YardstickBytes
}
