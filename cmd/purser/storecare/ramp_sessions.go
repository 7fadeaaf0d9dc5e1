package storecare

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/processes"
	"purser/authorizer"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// ImportRampSessionsCmd brings over the orders of the ramp's retired routes from the service
// before, while no server runs. The file is JSON lines. All of it is checked first: when anything
// is wrong, nothing is brought over.
type ImportRampSessionsCmd struct {
	datadir.Stores
	DataKey string `name:"data-key" env:"PURSER_DATA_KEY" secret:"" help:"The deployment's data key; that in the data directory when unset."`
	File    string `arg:"" help:"One session a line: workspaceId, id, direction, status, amountUsdCents, hostedUrl, createdAt."`
}

// Limits of an import.
const (
	maxSessions      = 100_000 // per file; more go into several files
	MaxSessionLine   = 8 << 10 // bytes
	maxFaultsShown   = 100
	workspacesAtOnce = 32
	importWithin     = time.Hour
	importEachWithin = time.Minute
)

// ErrNothingImported reports that the file of an import has errors. The output lists them.
var ErrNothingImported = errors.New("nothing was brought over")

// sessionLine is a line of the file.
type sessionLine struct {
	WorkspaceID    string         `json:"workspaceId"`
	ID             string         `json:"id"`        // rs_, of the workspace
	Direction      string         `json:"direction"` // onramp or offramp
	Status         string         `json:"status"`    // created, processing, completed or failed
	AmountUsdCents money.Cents    `json:"amountUsdCents"`
	HostedURL      string         `json:"hostedUrl"`
	CreatedAt      decision.Stamp `json:"createdAt"`
}

func (l *sessionLine) session() balance.RampSession {
	return balance.RampSession{ID: l.ID, Direction: l.Direction, Status: l.Status, AmountCents: l.AmountUsdCents,
		HostedURL: l.HostedURL, CreatedAt: l.CreatedAt, UpdatedAt: l.CreatedAt}
}

// lineFaults are the errors of a file, in the order of its lines.
type lineFaults []string

func (f *lineFaults) add(line int, format string, args ...any) {
	*f = append(*f, fmt.Sprintf("line %d: %s", line, fmt.Sprintf(format, args...)))
}

// check prints the faults, and fails when there are any.
func (f lineFaults) check(out io.Writer) error {
	for i, text := range f {
		if i == maxFaultsShown {
			fmt.Fprintf(out, "and %d more\n", len(f)-i)
			break
		}
		fmt.Fprintln(out, text)
	}
	if len(f) > 0 {
		return ErrNothingImported
	}
	return nil
}

// Run is `purser import-ramp-sessions`: it reads the file, checks it against the stores, and
// imports missing sessions. A repeated import of the same file changes nothing. It fails while a
// server runs, with ErrNothingImported for a faulty line, and with an error of the stores.
func (c *ImportRampSessionsCmd) Run(out io.Writer) error {
	lines, err := readSessions(c.File, out)
	if err != nil {
		return err
	}
	unlock, err := datadir.LockUsed(c.DataDir)
	if errors.Is(err, datadir.ErrInUse) {
		return fmt.Errorf("%w: stop it first", err)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), importWithin)
	defer cancel()
	return errors.Join(c.importInto(ctx, lines, out), unlock())
}

// readSessions reads the whole file. It checks each line, and the lines against each other. Every
// fault is printed with its line, and any fault fails with ErrNothingImported.
func readSessions(path string, out io.Writer) (lines []sessionLine, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var wrong lineFaults
	seen, n := map[string]int{}, 0
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, MaxSessionLine)
	for scanner.Scan() {
		if n++; n > maxSessions {
			return nil, fmt.Errorf("the file has more than %d lines: make several of it", maxSessions)
		}
		var l sessionLine
		if err := json.Unmarshal(scanner.Bytes(), &l, json.RejectUnknownMembers(true)); err != nil {
			wrong.add(n, "%s", unreadable(err))
			continue
		}
		if err := l.check(); err != nil {
			wrong.add(n, "%v", err)
		}
		if first := seen[l.ID]; first > 0 {
			wrong.add(n, "id: %s is in line %d too", l.ID, first)
		}
		seen[l.ID] = n
		lines = append(lines, l)
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d is longer than %d bytes", n+1, MaxSessionLine)
	}
	return lines, errors.Join(scanner.Err(), wrong.check(out))
}

// unreadable names the field that a line cannot be read for, where it is one.
func unreadable(err error) string {
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok || semantic.JSONPointer == "" {
		return err.Error()
	}
	field := semantic.JSONPointer.LastToken()
	if errors.Is(err, json.ErrUnknownName) {
		return field + ": no field of a session"
	}
	return field + ": cannot be read"
}

// check returns the errors of a line that need no read of the stores.
func (l *sessionLine) check() error {
	if _, err := ident.Parse(ident.Workspace, l.WorkspaceID); err != nil {
		return errors.New("workspaceId: no id of a workspace")
	}
	session := l.session()
	refused, ok := errors.AsType[*fault.Error](session.Check(l.WorkspaceID))
	if !ok {
		return nil
	}
	return errors.New(strings.Replace(refused.Message, "amountCents", "amountUsdCents", 1))
}

// importInto opens the stores, starts the actors without their background loops, and imports. It
// fails when a store is missing or cannot be opened, and like importSessions.
func (c *ImportRampSessionsCmd) importInto(ctx context.Context, lines []sessionLine, out io.Writer) (err error) {
	if err := c.RequireStores(); err != nil {
		return err
	}
	sealer, err := settings.OpenSealer(c.DataDir, c.DataKey)
	if err != nil {
		return err
	}
	fatal := func(err error) { panic(fmt.Sprintf("a store has failed: %v", err)) }
	journal, err := c.OpenJournal(ctx, datadir.JournalOptions{MustExist: true, Clock: time.Now,
		Entropy: rand.Reader, Fatal: fatal,
		Note: func(error) {}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	engine, err := authorizer.Open(authorizer.Options{Dir: datadir.AuthorizerDir(c.DataDir),
		Deployment: journal.Identity().Deployment,
		Clock:      time.Now, Entropy: rand.Reader, Fatal: fatal})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	system, err := processes.Start(ctx, processes.Config{Config: actors.Config{Journal: journal,
		Authorizer: engine, Still: true,
		Sealer: sealer, Clock: time.Now, Entropy: rand.Reader, Fatal: fatal}})
	if err != nil {
		return err
	}
	defer system.Stop()
	return importSessions(ctx, system, lines, out)
}

// importSessions looks each session up, and then imports those that are not there. A line with an
// unknown workspace, or one that differs from the stored session, fails all with
// ErrNothingImported.
func importSessions(ctx context.Context, system *processes.Product, lines []sessionLine, out io.Writer) error {
	var wrong lineFaults
	missing, known := []sessionLine{}, map[string]bool{}
	for i := range lines {
		l := &lines[i]
		if _, asked := known[l.WorkspaceID]; !asked {
			_, err := system.Record(ctx, actors.KindWorkspace, l.WorkspaceID, l.WorkspaceID)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			known[l.WorkspaceID] = err == nil
		}
		if !known[l.WorkspaceID] {
			wrong.add(i+1, "workspaceId: there is no workspace %s", l.WorkspaceID)
			continue
		}
		there, differs, err := l.compare(ctx, system)
		if err != nil {
			return err
		}
		if differs != "" {
			wrong.add(i+1, "%s: %s was brought over with another one", differs, l.ID)
		}
		if !there {
			missing = append(missing, *l)
		}
	}
	if err := wrong.check(out); err != nil {
		return err
	}
	if err := bringOver(ctx, system, missing); err != nil {
		return fmt.Errorf("some sessions may have been brought over, and the same file again brings over the rest: %w", err)
	}
	fmt.Fprintf(out, "%d sessions brought over, %d were there already\n", len(missing), len(lines)-len(missing))
	return nil
}

// compare reports whether a session is stored, and a field in which the stored one differs. It
// ignores the status, which a report may have changed since. It fails for a malformed id, and when
// the record cannot be read.
func (l *sessionLine) compare(ctx context.Context, system *processes.Product) (there bool, differs string, err error) {
	slot, err := ident.SlotOf(l.ID)
	if err != nil {
		return false, "", err
	}
	record, err := system.Find(ctx, slot, balance.RecordRampSession, l.ID)
	if fault.Is(err, fault.NotFound) {
		return false, "", nil
	}
	if err != nil {
		return false, "", err
	}
	var old balance.RampSession
	if err := json.Unmarshal(record.Document, &old); err != nil {
		return false, "", fmt.Errorf("%s: %w", l.ID, err)
	}
	switch {
	case record.Workspace != l.WorkspaceID: // ids of several workspaces are in a slot
		differs = "workspaceId"
	case old.Direction != l.Direction:
		differs = "direction"
	case old.AmountCents != l.AmountUsdCents:
		differs = "amountUsdCents"
	case old.HostedURL != l.HostedURL:
		differs = "hostedUrl"
	case !old.CreatedAt.Equal(l.CreatedAt.Time):
		differs = "createdAt"
	case old.Status != l.Status && old.UpdatedAt.Equal(old.CreatedAt.Time):
		differs = "status"
	}
	return true, differs, nil
}

// bringOver imports each session into its balance: the oldest of a workspace first, because lists
// have that order, and many workspaces at a time, which share commits. It returns the first error
// and then imports no further session of any workspace.
func bringOver(ctx context.Context, system *processes.Product, lines []sessionLine) error {
	slices.SortStableFunc(lines, func(a, b sessionLine) int { return a.CreatedAt.Compare(b.CreatedAt.Time) })
	of := map[string][]sessionLine{}
	for i := range lines {
		of[lines[i].WorkspaceID] = append(of[lines[i].WorkspaceID], lines[i])
	}
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	var group sync.WaitGroup
	slots := make(chan struct{}, workspacesAtOnce)
	for _, sessions := range of {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			for i := range sessions {
				if err := sessions[i].bringOver(ctx, system); err != nil {
					failed(fmt.Errorf("%s: %w", sessions[i].ID, err)) // the first one counts
					return
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

func (l *sessionLine) bringOver(ctx context.Context, system *processes.Product) error {
	ctx, cancel := context.WithTimeout(ctx, importEachWithin)
	defer cancel()
	_, err := system.Ask(ctx, actors.Envelope{Kind: actors.KindBalance, Stream: l.WorkspaceID, Workspace: l.WorkspaceID,
		Command: balance.ImportRampSession{Workspace: l.WorkspaceID, Session: l.session()}})
	return err
}
