package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/authorizer"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/httpapi"
	"purser/persistence/pebblegate"
)

// startWithFreeBytes starts a server whose disk has as many free bytes as a test says. Its files are on the
// real one.
func startWithFreeBytes(t *testing.T, data string, free *atomic.Int64) (*daemon, *process) {
	t.Helper()
	config := testConfig(t, data)
	config.SandboxDelay, config.RateLimits.Off = 0, true
	m := newDaemon(config, debugLogger())
	m.DiskFree = func(string) (int64, error) { return free.Load(), nil }
	return m, m.startWithClient(t)
}

func (m *daemon) awaitRoom(t *testing.T, p *process, r authorizer.Room) {
	t.Helper()
	p.await(t, "the room", func() bool { return authorizer.Room(m.disk.room.Load()) == r })
}

// postCardMessage sends a message of the card network once.
func (p *process) postCardMessage(t *testing.T, path string, body fields) apiclient.Answer {
	t.Helper()
	a, err := p.client(p.network, p.secret).Send(t.Context(), apiclient.Request{Method: "POST", Path: path, Body: marshal(body)})
	require.NoError(t, err)
	return a
}

func oneDollarSwipe(id, token string) fields {
	return fields{"id": id, "cardToken": token, "amountCents": 100, "currency": "USD",
		"merchant": fields{"name": "Cafe", "mcc": "5812"}}
}

func clearingOf(id, authorization, token string, cents int) fields {
	return fields{"id": id, "authorizationId": authorization, "cardToken": token, "amountCents": cents,
		"currency": "USD",
		"merchant": fields{"name": "Cafe", "mcc": "5812"}}
}

// Below the reserve approvals stop, and every other promise holds: facts, repeats, relay, freezes,
// reads, a stop, a start. With room they return by themselves.
func TestAttackFullDiskStopsApprovalsAndNothingElse(t *testing.T) {
	var free atomic.Int64
	free.Store(1 << 40)
	data := t.TempDir()
	m, p := startWithFreeBytes(t, data, &free)
	v := newTenantWithHold(t, p)
	other := v.mustPost(t, p, "/api/cards", cardRequest(), 200).answer.Text("card", "id")

	free.Store(m.config.DiskReserve - 1)
	m.awaitRoom(t, p, authorizer.RoomForFacts)
	low := p.postCardMessage(t, "/v1/authorizations", oneDollarSwipe("low", v.token))
	require.Equal(t, "declined", low.Text("decision"))
	require.Equal(t, "system_unavailable", low.Text("reason"))
	require.Equal(t, "96", low.Text("responseCode"))
	require.Equal(t, string(v.swiped.Raw), string(v.repeatSwipe(t).Raw), "a repeat is answered")
	cleared := p.postCardMessage(t, "/v1/clearings", clearingOf("clear", v.swiped.Text("authorizationId"), v.token, 100))
	require.Equal(t, 200, cleared.Status, string(cleared.Raw))
	p.awaitEmptyBacklog(t)

	refused, err := p.client(p.rest, v.bearer).Send(t.Context(),
		apiclient.Request{Method: "POST", Path: "/api/cards", Body: marshal(cardRequest())})
	require.NoError(t, err)
	require.Equal(t, 503, refused.Status)
	require.Equal(t, "unavailable", refused.Text("error"))
	require.Contains(t, refused.Text("message"), "nothing changed")
	frozen, err := p.client(p.rest, v.bearer).Send(t.Context(), apiclient.Request{Method: "PATCH", Path: "/api/cards/" + other,
		Body: marshal(fields{"state": "frozen"})})
	require.NoError(t, err)
	require.Equal(t, 200, frozen.Status, string(frozen.Raw))
	const most = 1_000 // merchants in an allowlist
	long := slices.Repeat([]string{strings.Repeat("x", 80)}, most)
	widened, err := p.client(p.rest, v.bearer).Send(t.Context(), apiclient.Request{Method: "PATCH", Path: "/api/cards/" + other,
		Body: marshal(fields{"merchantAllowlist": long})})
	require.NoError(t, err)
	require.Equal(t, 503, widened.Status, "a body that fills the reserve")
	status, why := m.adminPage(t, "/readyz")
	require.Equal(t, 503, status)
	require.Contains(t, why, datadir.JournalDir(data)+", "+datadir.AuthorizerDir(data)+", ")
	require.Equal(t, 1, strings.Count(why, " has 1023.9 MiB free; approvals need 1"),
		"one disk, one reason: %s", why) // 1 GiB, and what the backlog needs
	_, metrics := m.adminPage(t, "/metrics")
	require.InEpsilon(t, m.config.DiskReserve-1, sumLabelled(metrics, "purser_disk_free_bytes", `"journal"`), 1e-9)
	require.InEpsilon(t, m.config.DiskReserve, sumLabelled(metrics, "purser_disk_reserve_bytes", `"authorizer"`), 1e-9)

	free.Store(settings.LastReserve - 1)
	m.awaitRoom(t, p, authorizer.RoomForNone)
	cleared = p.postCardMessage(t, "/v1/clearings", clearingOf("late", v.swiped.Text("authorizationId"), v.token, 100))
	require.Equal(t, 503, cleared.Status, string(cleared.Raw))
	unfrozen, err := p.client(p.rest, v.bearer).Send(t.Context(), apiclient.Request{Method: "PATCH", Path: "/api/cards/" + other,
		Body: marshal(fields{"state": "active"})})
	require.NoError(t, err)
	require.Equal(t, 503, unfrozen.Status, "the last reserve is for the relay and a start")
	require.NoError(t, p.stop())

	m, v.p = startWithFreeBytes(t, data, &free)
	require.Equal(t, string(v.swiped.Raw), string(v.repeatSwipe(t).Raw))
	require.Equal(t, authorizer.RoomForNone, authorizer.Room(m.disk.room.Load()))
	require.Equal(t, "system_unavailable",
		v.p.postCardMessage(t, "/v1/authorizations", oneDollarSwipe("low", v.token)).Text("reason"))
	free.Store(m.config.DiskReserve + m.config.DiskReserve/againPart)
	m.awaitRoom(t, v.p, authorizer.RoomForAll)
	v.p.postCardMessage(t, "/v1/clearings", clearingOf("late", v.swiped.Text("authorizationId"), v.token, 100))
	v.p.requireApproval(t, v.token, "again")
	require.Contains(t, runAudit(t, data), "agree to the cent")
	require.NoError(t, v.p.stop())

	free.Store(startBytes - 1)
	full := newDaemon(testConfig(t, data), slog.New(slog.DiscardHandler))
	full.DiskFree = func(string) (int64, error) { return free.Load(), nil }
	err = full.Start(t.Context())
	require.ErrorIs(t, err, pebblegate.ErrNoRoom)
	require.ErrorContains(t, err, fmt.Sprintf("the disk of %s has 1023.9 KiB free; a start needs 1 MiB", data))
}

func TestRoomReturnsOnlyWithMoreThanItsThreshold(t *testing.T) {
	const approvals, facts = 800, 400
	room := authorizer.RoomForAll
	for _, step := range []struct {
		free int64
		then authorizer.Room
	}{{800, authorizer.RoomForAll}, {799, authorizer.RoomForFacts}, {899, authorizer.RoomForFacts},
		{900, authorizer.RoomForAll},
		{400, authorizer.RoomForFacts}, {399, authorizer.RoomForNone}, {449, authorizer.RoomForNone},
		{450, authorizer.RoomForFacts}, {399, authorizer.RoomForNone}, {900, authorizer.RoomForAll}} {
		room = roomWith(room, step.free, approvals, facts)
		require.Equal(t, step.then, room, "%d bytes free", step.free)
	}
}

// Decisions that are not relayed need room in the journal's directory, and none when the journal is
// in Postgres.
func TestTheReserveGrowsByTheBacklog(t *testing.T) {
	config := testConfig(t, t.TempDir())
	free := func(string) (int64, error) { return config.DiskReserve + 1000*relayBytes - 1, nil }
	d := newDiskGuard(config, free, debugLogger())
	d.backlog, d.told = func() int64 { return 1000 }, func(authorizer.Room) {}
	d.measureDisks()
	require.Equal(t, authorizer.RoomForFacts, authorizer.Room(d.room.Load()))
	config.DatabaseURL = "postgres://elsewhere/"
	d = newDiskGuard(config, free, debugLogger())
	d.backlog, d.told = func() int64 { return 1000 }, func(authorizer.Room) {}
	d.measureDisks()
	require.Equal(t, authorizer.RoomForAll, authorizer.Room(d.room.Load()))
}

// Readiness has one reason for each disk that is full or cannot be measured. It names all stores on
// the disk, and the largest need of them.
func TestAFullDiskIsNamedOnceWithItsStores(t *testing.T) {
	config := testConfig(t, t.TempDir())
	ramp := datadir.RampDir(config.DataDir)
	d := newDiskGuard(config, func(dir string) (int64, error) {
		if dir == ramp {
			return 0, syscall.EIO
		}
		return config.DiskReserve - 1<<20, nil
	}, debugLogger())
	d.device = func(dir string) (uint64, error) {
		if dir == ramp {
			return 2, nil
		}
		return 1, nil
	}
	d.backlog, d.told = func() int64 { return 1024 }, func(authorizer.Room) {}
	d.measureDisks()
	others := []string{datadir.JournalDir(config.DataDir), datadir.AuthorizerDir(config.DataDir), datadir.BankDir(config.DataDir),
		datadir.ChainsDir(config.DataDir)}
	require.EqualError(t, d.roomFault(), "the disk of "+strings.Join(others, ", ")+
		" has 1023 MiB free; approvals need 1.1 GiB\nthe free space of "+ramp+" is not known: input/output error")
}

// A disk that cannot be measured keeps its room, and readiness says so.
func TestADiskThatCannotBeMeasuredIsNamed(t *testing.T) {
	var broken atomic.Bool
	d := newDiskGuard(testConfig(t, t.TempDir()), func(string) (int64, error) {
		if broken.Load() {
			return 0, syscall.EIO
		}
		return 1 << 40, nil
	}, debugLogger())
	d.measureDisks()
	require.NoError(t, d.roomFault())
	broken.Store(true)
	d.measureDisks()
	require.ErrorIs(t, d.roomFault(), syscall.EIO)
	require.Equal(t, authorizer.RoomForAll, authorizer.Room(d.room.Load()))
	require.NoError(t, d.refusal(httpapi.DownToReserve))
}

// directorySize adds up the files of a directory.
func directorySize(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		info, err := e.Info()
		if err == nil && !info.IsDir() {
			bytes += info.Size()
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}))
	return bytes
}

// The constants of the reserve hold: relayed decisions take less room than is kept for each.
func TestRelayedDecisionsFitTheirShareOfTheReserve(t *testing.T) {
	var free atomic.Int64
	free.Store(1 << 40)
	data := t.TempDir()
	_, p := startWithFreeBytes(t, data, &free)
	v := newTenantWithHold(t, p)
	p.awaitEmptyBacklog(t)
	before := directorySize(t, datadir.JournalDir(data))
	const swipes = 400
	for i := range swipes {
		p.postCardMessage(t, "/v1/authorizations", fields{"id": fmt.Sprint("s", i), "cardToken": v.token, "amountCents": 1,
			"currency": "USD", "merchant": fields{"name": "Cafe", "mcc": "5812"}})
	}
	p.awaitEmptyBacklog(t)
	each := (directorySize(t, datadir.JournalDir(data)) - before) / swipes
	t.Logf("a relayed decision grows the journal's directory by %d bytes", each)
	require.Less(t, each, int64(relayBytes))
}

// errorWithTrace is an error whose verbose form has a stack trace, as Pebble's have.
type errorWithTrace struct{}

func (errorWithTrace) Error() string { return "no space left on device" }

func (f errorWithTrace) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, f.Error())
	if s.Flag('+') {
		_, _ = io.WriteString(s, "\nstack trace")
	}
}

func TestTheLogHasErrorsWithoutStackTraces(t *testing.T) {
	var out strings.Builder
	settings.NewLogger(&out, settings.Config{LogFormat: settings.LogText}).Error("a store has failed", "err",
		fmt.Errorf("commit: %w", errorWithTrace{}))
	settings.NewLogger(&out, settings.Config{LogFormat: settings.LogText}).Error("a store has failed", "err", errorWithTrace{})
	require.Equal(t, 2, strings.Count(out.String(), "no space left on device"))
	require.NotContains(t, out.String(), "trace")
}
