package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/authorizer"
	"purser/persistence"
	"purser/persistence/pebblegate"
	"purser/persistence/pebblejournal"
)

// The data directory: lock, addresses, the secrets, and one directory for each store.

func authorizerDir(data string) string { return filepath.Join(data, "authorizer") }
func journalDir(data string) string    { return filepath.Join(data, "journal") }
func addressesFile(data string) string { return filepath.Join(data, "addresses") }

// How often a start tries to take the data directory. A command that looks whether a server runs has
// the directory for an instant.
const (
	lockTries = 10
	lockPause = 20 * time.Millisecond
)

// errInUse says that another process has the data directory.
var errInUse = errors.New("the data directory is in use by another purser")

// lockDirectory makes the data directory and takes it for this process. The lock ends with the process, however it ends.
// What is made is synced into its parents: stores in a directory that is gone after a power loss are gone too.
func lockDirectory(data string) (unlock func() error, err error) {
	if err := pebblegate.MakeDir(vfs.Default, data); err != nil {
		return nil, err
	}
	for range lockTries {
		if unlock, err = lockExisting(data); !errors.Is(err, errInUse) {
			return unlock, err
		}
		time.Sleep(lockPause)
	}
	return nil, err
}

// lockExisting takes a data directory that must be there, unless a restore into it was not finished.
func lockExisting(data string) (unlock func() error, err error) {
	if unlock, err = lockWhatever(data); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(restoringDir(data)); err == nil {
		return nil, errors.Join(fmt.Errorf("a restore into %s was not finished: run the same `purser restore` again", data),
			unlock())
	}
	return unlock, nil
}

// lockWhatever takes a data directory in whatever state it is: for restore.
func lockWhatever(data string) (unlock func() error, err error) {
	file, err := os.OpenFile(filepath.Join(data, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no data directory %s; name it with --data-dir or PURSER_DATA_DIR", data)
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", errInUse, data)
		}
		return nil, fmt.Errorf("lock %s: %w", data, err)
	}
	return func() error {
		// A child that was forked and has not begun its program has the descriptor too, and a close
		// alone would leave it the lock.
		return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
	}, nil
}

// lockUsed takes a data directory for a command that only reads it: one that no server has ever had is refused, and nothing is
// made in it.
func lockUsed(data string) (unlock func() error, err error) {
	if _, err := os.Stat(data); err == nil && !used(data) {
		return nil, fmt.Errorf("%s is no data directory of purser: it has neither %s nor %s; name it with --data-dir or PURSER_DATA_DIR",
			data, journalDir(data), authorizerDir(data))
	}
	return lockExisting(data)
}

func used(data string) bool {
	_, err := os.Stat(filepath.Join(data, "lock"))
	return err == nil || pebblejournal.Exists(nil, journalDir(data)) || authorizer.Exists(nil, authorizerDir(data))
}

// requireJournal refuses to read a journal that would have to be made. That of a database says so itself.
func (p Place) requireJournal() error {
	if p.DatabaseURL == "" && !pebblejournal.Exists(nil, journalDir(p.DataDir)) {
		return fmt.Errorf("%s has no journal: %s is missing", p.DataDir, journalDir(p.DataDir))
	}
	return nil
}

// requireStores refuses to read stores one of which would have to be made.
func (p Place) requireStores() error {
	if err := p.requireJournal(); err != nil {
		return err
	}
	if !authorizer.Exists(nil, authorizerDir(p.DataDir)) {
		return fmt.Errorf("%s is missing: %s", authorizerDir(p.DataDir), repairMissing)
	}
	return nil
}

// authorizerBelongs stops a start that would answer swipes from an empty authorizer though the journal knows of cards and money.
func authorizerBelongs(data string, journal persistence.Journal) error {
	if authorizer.Exists(nil, authorizerDir(data)) {
		return nil
	}
	if hasEvents(journal) {
		return fmt.Errorf("%s is missing, but the journal has events: %s", authorizerDir(data), repairMissing)
	}
	return nil
}

// publish writes where the servers listen, for the commands that ask a running server and for scripts.
func publish(data string, l listeners) error {
	text := fmt.Sprintf("HTTP_ADDR=%s\nAUTHORIZER_ADDR=%s\nADMIN_ADDR=%s\n", reachable(l.http.Addr()),
		reachable(l.authorizer.Addr()), reachable(l.admin.Addr()))
	return writeDurably(addressesFile(data), text)
}

// requireServer refuses a data directory that no process has. It makes nothing in it.
func requireServer(data string) error {
	unlock, err := lockUsed(data)
	if errors.Is(err, errInUse) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(fmt.Errorf("no server runs on %s: start it, or name its directory with --data-dir", data), unlock())
}

// published reads one of the addresses of the server that has the directory.
func published(data, name string) (string, error) {
	if err := requireServer(data); err != nil {
		return "", err
	}
	text, err := os.ReadFile(addressesFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the purser that has %s does not listen: a server starts or stops, "+
			"repeat the command in a moment", data)
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if address, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return address, nil
		}
	}
	return "", fmt.Errorf("%s has no %s", addressesFile(data), name)
}

// reachable is an address under which this machine reaches a listener of its own: host:port, or
// unix:/path.
func reachable(a net.Addr) string {
	if a.Network() == "unix" {
		return unixScheme + a.String()
	}
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return a.String()
	}
	loopback := net.IPv4(127, 0, 0, 1)
	if tcp.IP.To4() == nil {
		loopback = net.IPv6loopback
	}
	return (&net.TCPAddr{IP: loopback, Port: tcp.Port}).String()
}
