// Package datadir is the data directory of a deployment: where each store is in it, the lock that
// gives it to one process, the addresses of the server that runs on it, and how its journal is
// opened. Files: datadir.go (layout, lock, addresses), stores.go (the journal), damage.go (the
// repair that an error names), durable.go (files that survive a power loss), space.go (free space).
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/authorizer"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/pebblegate"
	"purser/persistence/pebblejournal"
)

// AuthorizerDir is the directory of the authorizer's store in a data directory.
func AuthorizerDir(data string) string { return filepath.Join(data, "authorizer") }

// JournalDir is the directory of the journal, unless the journal is in a database.
func JournalDir(data string) string { return filepath.Join(data, "journal") }

// AddressesFile is the file with the addresses of the running server.
func AddressesFile(data string) string { return filepath.Join(data, "addresses") }

// A start retries the lock, because a command that checks for a running server holds the lock for
// an instant.
const (
	lockTries = 10
	lockPause = 20 * time.Millisecond
)

// ErrInUse reports that another process holds the lock of the data directory.
var ErrInUse = errors.New("the data directory is in use by another purser")

// Lock makes the data directory if it is missing and locks it. The lock ends with the process, even
// after kill -9. A new directory is synced into its parents, so that a power loss does not lose it
// together with the stores in it. It waits for another process's lock for a short time and then
// fails with ErrInUse. It also fails for an unfinished restore and with the disk's error.
func Lock(data string) (unlock func() error, err error) {
	if err := pebblegate.MakeDir(vfs.Default, data); err != nil {
		return nil, err
	}
	for range lockTries {
		if unlock, err = LockExisting(data); !errors.Is(err, ErrInUse) {
			return unlock, err
		}
		time.Sleep(lockPause)
	}
	return nil, err
}

// LockExisting locks a data directory that must exist. It refuses a directory with an unfinished
// restore. It fails with ErrInUse while another process holds the lock, and for a missing
// directory.
func LockExisting(data string) (unlock func() error, err error) {
	if unlock, err = LockUnfinished(data); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(RestoringDir(data)); err == nil {
		return nil, errors.Join(fmt.Errorf("a restore into %s was not finished: run the same `purser restore` again", data),
			unlock())
	}
	return unlock, nil
}

// LockUnfinished locks a data directory in any state, also with an unfinished restore. It fails
// with ErrInUse while another process holds the lock, and for a missing directory.
func LockUnfinished(data string) (unlock func() error, err error) {
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
			return nil, fmt.Errorf("%w: %s", ErrInUse, data)
		}
		return nil, fmt.Errorf("lock %s: %w", data, err)
	}
	return func() error {
		// A forked child that has not called exec yet shares the descriptor. Closing alone would
		// leave the lock to that child.
		return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
	}, nil
}

// LockUsed locks a data directory for a command that must not make one. The error is ErrInUse while
// another process holds the lock. LockUsed also refuses a missing directory, one without a lock
// file or a store, and one with an unfinished restore. It creates nothing in a refused directory.
func LockUsed(data string) (unlock func() error, err error) {
	if _, err := os.Stat(data); err == nil && !WasUsed(data) {
		return nil, fmt.Errorf("%s is no data directory of purser: it has neither %s nor %s; name it with --data-dir or PURSER_DATA_DIR",
			data, JournalDir(data), AuthorizerDir(data))
	}
	return LockExisting(data)
}

// WasUsed reports whether a directory has a lock file or a store.
func WasUsed(data string) bool {
	_, err := os.Stat(filepath.Join(data, "lock"))
	return err == nil || pebblejournal.Exists(nil, JournalDir(data)) || authorizer.Exists(nil, AuthorizerDir(data))
}

// RequireJournal returns an error when the directory has no journal, so that a command that reads
// does not create one. Opening the journal of a database reports the same.
func (s Stores) RequireJournal() error {
	if s.DatabaseURL == "" && !pebblejournal.Exists(nil, JournalDir(s.DataDir)) {
		return fmt.Errorf("%s has no journal: %s is missing", s.DataDir, JournalDir(s.DataDir))
	}
	return nil
}

// RequireStores returns an error when the journal or the authorizer's store is missing.
func (s Stores) RequireStores() error {
	if err := s.RequireJournal(); err != nil {
		return err
	}
	if !authorizer.Exists(nil, AuthorizerDir(s.DataDir)) {
		return fmt.Errorf("%s is missing: %s", AuthorizerDir(s.DataDir), repairMissing)
	}
	return nil
}

// RequireAuthorizer returns an error when the journal has events and the authorizer's store is
// missing: a start would answer swipes without cards and funds.
func RequireAuthorizer(data string, journal persistence.Journal) error {
	if authorizer.Exists(nil, AuthorizerDir(data)) {
		return nil
	}
	if HasEvents(journal) {
		return fmt.Errorf("%s is missing, but the journal has events: %s", AuthorizerDir(data), repairMissing)
	}
	return nil
}

// Addresses are those under which this machine reaches the servers of a data directory.
type Addresses struct{ REST, Network, Admin string }

// Publish writes the addresses of the running servers into the data directory, for the commands
// that ask a running server and for scripts. It fails only with the disk's error.
func Publish(data string, a Addresses) error {
	text := fmt.Sprintf("HTTP_ADDR=%s\nAUTHORIZER_ADDR=%s\nADMIN_ADDR=%s\n", a.REST, a.Network, a.Admin)
	return WriteDurably(AddressesFile(data), text)
}

// requireServer returns an error when no process holds the lock of the data directory. It creates
// nothing there.
func requireServer(data string) error {
	unlock, err := LockUsed(data)
	if errors.Is(err, ErrInUse) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(fmt.Errorf("no server runs on %s: start it, or name its directory with --data-dir", data), unlock())
}

// PublishedAddress reads an address of the server that runs on the directory. The name is
// HTTP_ADDR, AUTHORIZER_ADDR or ADMIN_ADDR. It fails when no server runs on the directory, or when
// the server is just starting or stopping.
func PublishedAddress(data, name string) (string, error) {
	if err := requireServer(data); err != nil {
		return "", err
	}
	text, err := os.ReadFile(AddressesFile(data))
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
	return "", fmt.Errorf("%s has no %s", AddressesFile(data), name)
}

// SandboxDir is the directory of the simulated partners' store in a data directory, or in a backup
// of one.
func SandboxDir(data string) string { return filepath.Join(data, "sandbox") }

// RestoringDir is the directory in which a restore prepares the stores.
func RestoringDir(data string) string { return filepath.Join(data, "restoring") }

// HasEvents reports whether a shard of the journal has an event.
func HasEvents(journal persistence.Journal) bool {
	for shard := range ident.Shards {
		if journal.Head(ident.Shard(shard)).Position > 0 {
			return true
		}
	}
	return false
}
