package main

import (
	"errors"
	"fmt"

	"purser/persistence/pebblegate"
)

// Repairs of damaged stores, by store.
const (
	repairJournal = "`purser restore` puts a backup in its place"
	repairEngine  = "`purser rebuild-authorizer --yes` makes it anew from the journal, without the decisions that were not relayed; " +
		"`purser restore` puts a backup in its place"
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
