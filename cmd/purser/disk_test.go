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

// startWithFreeBytes starts a server that measures free as the free bytes of every disk. Its files
// are on the real disk.
func startWithFreeBytes(t *testing.T, data string, free *atomic.Int64) (*daemon, *process) {
	t.Helper()
	config := testConfig(t, data)
	config.SandboxDelay, config.RateLimits.Off = 0, true
	m := newDaemon(config, debugLogger())
	m.DiskFree = func(string) (int64, error) { return free.Load(), nil }
	return m, m.startWithClient(t)
}

// awaitRoom waits until the server has measured its disks and has room for r.
func awaitRoom(t *testing.T, m *daemon, p *process, r authorizer.Room) {
	t.Helper()
	p.await(t, "the room", func() bool { return authorizer.Room(m.disk.room.Load()) == r })
}

// postCardMessage sends a message of the card network, without a retry.
func (p *process) postCardMessage(t *testing.T, path string, body fields) apiclient.Answer {
	t.Helper()
	message := apiclient.Request{Method: "POST", Path: path, Body: marshal(body)}
	a, err := p.client(p.network, p.secret).Send(t.Context(), message)
	require.NoError(t, err)
	return a
}

// oneDollarSwipe returns an authorization of one dollar.
func oneDollarSwipe(id, token string) fields {
	return fields{"id": id, "cardToken": token, "amountCents": 100, "currency": "USD",
		"merchant": fields{"name": "Cafe", "mcc": "5812"}}
}

// clearingOf returns a clearing of an authorization in cents.
func clearingOf(id, authorization, token string, cents int) fields {
	return fields{"id": id, "authorizationId": authorization, "cardToken": token, "amountCents": cents,
		"currency": "USD",
		"merchant": fields{"name": "Cafe", "mcc": "5812"}}
}

// Below the disk reserve approvals and requests that store more are refused. Clearings, repeats,
// the relay, freezes, reads, a stop and a start continue. Approvals return with the space.
func TestAttackFullDiskStopsApprovalsAndNothingElse(t *testing.T) {
	var free atomic.Int64
	free.Store(1 << 40)
	data := t.TempDir()
	m, p := startWithFreeBytes(t, data, &free)
	v := newTenantWithHold(t, p)
	other := v.mustPost(t, p, "/api/cards", cardRequest(), 200).answer.Text("card", "id")

	free.Store(m.config.DiskReserve - 1)
	awaitRoom(t, m, p, authorizer.RoomForFacts)
	low := p.postCardMessage(t, "/v1/authorizations", oneDollarSwipe("low", v.token))
	require.Equal(t, "declined", low.Text("decision"))
	require.Equal(t, "system_unavailable", low.Text("reason"))
	require.Equal(t, "96", low.Text("responseCode"))
	require.Equal(t, string(v.swiped.Raw), string(v.repeatSwipe(t).Raw), "a repeat is answered")
	clearing := func(id string) fields { return clearingOf(id, v.swiped.Text("authorizationId"), v.token, 100) }
	cleared := p.postCardMessage(t, "/v1/clearings", clearing("clear"))
	require.Equal(t, 200, cleared.Status, string(cleared.Raw))
	p.awaitEmptyBacklog(t)

	refused, err := p.client(p.rest, v.bearer).Send(t.Context(),
		apiclient.Request{Method: "POST", Path: "/api/cards", Body: marshal(cardRequest())})
	require.NoError(t, err)
	require.Equal(t, 503, refused.Status)
	require.Equal(t, "unavailable", refused.Text("error"))
	require.Contains(t, refused.Text("message"), "nothing changed")
	patchOther := func(change fields) apiclient.Answer {
		a, err := p.client(p.rest, v.bearer).Send(t.Context(), apiclient.Request{Method: "PATCH",
			Path: "/api/cards/" + other, Body: marshal(change)})
		require.NoError(t, err)
		return a
	}
	frozen := patchOther(fields{"state": "frozen"})
	require.Equal(t, 200, frozen.Status, string(frozen.Raw))
	const maxMerchants = 1_000 // in an allowlist
	long := slices.Repeat([]string{strings.Repeat("x", 80)}, maxMerchants)
	widened := patchOther(fields{"merchantAllowlist": long})
	require.Equal(t, 503, widened.Status, "a change that grows the card is refused")
	status, why := m.adminPage(t, "/readyz")
	require.Equal(t, 503, status)
	require.Contains(t, why, datadir.JournalDir(data)+", "+datadir.AuthorizerDir(data)+", ")
	require.Equal(t, 1, strings.Count(why, " has 1023.9 MiB free; approvals need 1"),
		"one disk, one reason: %s", why) // 1 GiB, and the room that the backlog needs
	_, metrics := m.adminPage(t, "/metrics")
	require.InEpsilon(t, m.config.DiskReserve-1, sumLabelled(metrics, "purser_disk_free_bytes", `"journal"`), 1e-9)
	require.InEpsilon(t, m.config.DiskReserve, sumLabelled(metrics, "purser_disk_reserve_bytes", `"authorizer"`), 1e-9)

	free.Store(settings.LastReserve - 1)
	awaitRoom(t, m, p, authorizer.RoomForNone)
	cleared = p.postCardMessage(t, "/v1/clearings", clearing("late"))
	require.Equal(t, 503, cleared.Status, string(cleared.Raw))
	unfrozen := patchOther(fields{"state": "active"})
	require.Equal(t, 503, unfrozen.Status, "the last reserve is for the relay and a start")
	require.NoError(t, p.stop())

	m, v.p = startWithFreeBytes(t, data, &free)
	require.Equal(t, string(v.swiped.Raw), string(v.repeatSwipe(t).Raw))
	require.Equal(t, authorizer.RoomForNone, authorizer.Room(m.disk.room.Load()))
	require.Equal(t, "system_unavailable",
		v.p.postCardMessage(t, "/v1/authorizations", oneDollarSwipe("low", v.token)).Text("reason"))
	free.Store(m.config.DiskReserve + m.config.DiskReserve/againPart)
	awaitRoom(t, m, v.p, authorizer.RoomForAll)
	v.p.postCardMessage(t, "/v1/clearings", clearing("late"))
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

// Room that ended at a threshold returns only with an eighth more free space than the threshold,
// so that it does not change with every small file.
func TestRoomReturnsOnlyAboveItsThreshold(t *testing.T) {
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

// Each decision in the relay backlog adds relayBytes to the reserve, unless the journal is in
// Postgres.
func TestDiskReserveGrowsWithTheBacklog(t *testing.T) {
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

// Readiness has one reason for each disk that is full or cannot be measured. The reason names all
// stores on the disk and the largest number of bytes that one of them needs.
func TestFullDiskIsNamedOnceWithItsStores(t *testing.T) {
	config := testConfig(t, t.TempDir())
	simulated := datadir.SandboxDir(config.DataDir)
	d := newDiskGuard(config, func(dir string) (int64, error) {
		if dir == simulated {
			return 0, syscall.EIO
		}
		return config.DiskReserve - 1<<20, nil
	}, debugLogger())
	d.device = func(dir string) (uint64, error) {
		if dir == simulated {
			return 2, nil
		}
		return 1, nil
	}
	d.backlog, d.told = func() int64 { return 1024 }, func(authorizer.Room) {}
	d.measureDisks()
	others := []string{datadir.JournalDir(config.DataDir), datadir.AuthorizerDir(config.DataDir)}
	require.EqualError(t, d.roomFault(), "the disk of "+strings.Join(others, ", ")+
		" has 1023 MiB free; approvals need 1.1 GiB\nthe free space of "+simulated+" is not known: input/output error")
}

// A disk whose free space cannot be measured keeps the room of its last measurement, and readiness
// names it.
func TestUnmeasurableDiskKeepsItsRoomAndIsNamed(t *testing.T) {
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

// A relayed decision grows the journal's directory by less than relayBytes, the room that the
// reserve has for it.
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
		p.postCardMessage(t, "/v1/authorizations", fields{"id": fmt.Sprint("s", i), "cardToken": v.token,
			"amountCents": 1, "currency": "USD", "merchant": fields{"name": "Cafe", "mcc": "5812"}})
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

func TestLogHasErrorsWithoutStackTraces(t *testing.T) {
	var out strings.Builder
	log := settings.NewLogger(&out, settings.Config{LogFormat: settings.LogText})
	log.Error("a store has failed", "err", fmt.Errorf("commit: %w", errorWithTrace{}))
	log.Error("a store has failed", "err", errorWithTrace{})
	require.Equal(t, 2, strings.Count(out.String(), "no space left on device"))
	require.NotContains(t, out.String(), "trace")
}
