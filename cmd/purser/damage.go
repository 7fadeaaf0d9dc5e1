package main

import (
	"errors"
	"fmt"

	"purser/persistence/pebblegate"
)

// Repairs of damaged stores, by store.
const (
	repairJournal = "`purser restore` puts a backup in its place"
	repairEngine  = "`purser rebuild-authorizer` says what a repair keeps and loses, and " +
		"`purser rebuild-authorizer --yes` makes it anew from the journal; " +
		"`purser restore` of a backup loses more: all that is newer than the backup"
	repairMissing = "put the directory back, for its log may have decisions that the journal lacks; else " +
		"`purser rebuild-authorizer` says what is lost, and `purser rebuild-authorizer --yes` makes it anew from the journal"
	repairSandbox = "`purser restore` puts a backup in its place; without the directory the sandbox begins anew"
)

// withRepair names the directory of a store that was refused as damaged, and its repair. Another
// error stays as it is.
func withRepair(err error, dir, repair string) error {
	if errors.Is(err, pebblegate.ErrDamaged) {
		return fmt.Errorf("%s is damaged: %s (%w)", dir, repair, err)
	}
	return err
}
