package datadir

import (
	"errors"
	"fmt"

	"purser/persistence/pebblegate"
)

// The repair of each damaged or missing store, as an error names it.
const (
	repairJournal = "`purser restore` puts a backup in its place"
	RepairEngine  = "`purser rebuild-authorizer` says what a repair keeps and loses, and " +
		"`purser rebuild-authorizer --yes` makes it anew from the journal; " +
		"`purser restore` of a backup loses more: all that is newer than the backup"
	repairMissing = "put the directory back, for its log may have decisions that the journal lacks; else " +
		"`purser rebuild-authorizer` says what is lost, and `purser rebuild-authorizer --yes` makes it anew from the journal"
	RepairSandbox = "`purser restore` puts a backup in its place; without the directory the sandbox begins anew"
)

// WithRepair adds the directory and the repair to an error that reports a damaged store. It returns
// any other error unchanged.
func WithRepair(err error, dir, repair string) error {
	if errors.Is(err, pebblegate.ErrDamaged) {
		return fmt.Errorf("%s is damaged: %s (%w)", dir, repair, err)
	}
	return err
}
