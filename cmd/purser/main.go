// Command purser is the whole program: the servers, the commands that maintain the stores, the demo
// and the load tests. This package starts and stops the daemon. The packages under it have its
// settings (settings), the data directory (datadir), the commands (storecare, demo, loadtest) and
// the way to a running server (adminport, apiclient).
package main

import (
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/alecthomas/kong"

	"purser/cmd/purser/demo"
	"purser/cmd/purser/loadtest"
	"purser/cmd/purser/storecare"
)

type commands struct {
	ShowVersion showVersion `name:"version" help:"Print the version, the commit and the version of Go."`

	Serve              serveCommand                    `cmd:"" help:"Run the servers until SIGTERM."`
	Health             healthCommand                   `cmd:"" help:"Exit with 0 when a running server is ready, otherwise print the reasons and exit with 1."`
	Audit              storecare.AuditCmd              `cmd:"" help:"Re-add every amount from the raw events and compare it with the records and the authorizer."`
	RebuildAuthorizer  storecare.RebuildCmd            `cmd:"" help:"Say what a repair of the authorizer's store keeps and loses, or make it from the journal with --yes."`
	Clock              clockCommand                    `cmd:"" help:"Show the trusted time of a running server, or confirm its wall clock."`
	Backup             storecare.BackupCmd             `cmd:"" help:"Copy the stores into a new directory, while the server runs or not."`
	Restore            storecare.RestoreCmd            `cmd:"" help:"Make the stores from a backup."`
	MigrateJournal     storecare.MigrateJournalCmd     `cmd:"" help:"Move the journal of a data directory to Postgres."`
	ImportRampSessions storecare.ImportRampSessionsCmd `cmd:"" help:"Bring over the orders of the ramp's retired routes from the service before."`
	Unmatched          storecare.UnmatchedCmd          `cmd:"" help:"List the partners' reports that matched nothing."`
	Rotate             storecare.RotateCmd             `cmd:"" help:"Change one of the secrets of the data directory in two steps, without a moment at which none is valid."`
	Relay              storecare.RelayCmd              `cmd:"" help:"List the workspaces that the relay has set aside, or send their decisions again."`
	Payouts            storecare.PayoutsCmd            `cmd:"" help:"List the payouts, conversions and ramp orders that a partner has and does not report, or decide one."`
	ResetPassword      resetPasswordCommand            `cmd:"" help:"Make a link by which a user sets a new password, while the server runs."`
	Export             storecare.ExportCmd             `cmd:"" help:"Write files for treasurers."`
	Migrate            migrateCommand                  `cmd:"" help:"Bring the schema of the database up to date; a start does so too."`
	Topics             topicsCommand                   `cmd:"" help:"Make or check the topic; a server does so too."`
	Demo               demo.Command                    `cmd:"" help:"Walk through a running server and check every answer."`
	Bench              loadtest.Command                `cmd:"" help:"Measure a server under load, and check every answer."`
	Version            versionCommand                  `cmd:"" help:"Print the version."`
	PasswordWorker     passwordWorkerCommand           `cmd:"" hidden:"" help:"Derive password hashes for the server that started it."`
}

func main() {
	chosen, err := parse(os.Args[1:], os.Stdout)
	if err == nil {
		err = refuseSecretFlags(chosen)
	}
	if err == nil {
		err = chosen.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "purser:", err)
		os.Exit(1)
	}
}

// parse returns the command that the arguments name, ready to run with its output. It fails for
// arguments that do not parse.
func parse(args []string, out io.Writer) (*kong.Context, error) {
	parser, err := newParser(&commands{})
	if err != nil {
		return nil, err
	}
	chosen, err := parser.Parse(args)
	if err != nil {
		return nil, err
	}
	fillDefaults(chosen)
	chosen.BindTo(out, (*io.Writer)(nil))
	return chosen, nil
}

// fillDefaults gives each empty setting its default. A compose file hands on a variable that is not
// set as an empty one.
func fillDefaults(chosen *kong.Context) {
	for _, flag := range chosen.Flags() {
		if flag.Target.Kind() == reflect.String && flag.Target.Len() == 0 {
			flag.Target.SetString(flag.Default)
		}
	}
}

func newParser(c *commands) (*kong.Kong, error) {
	return kong.New(c, kong.Name("purser"), kong.Description("Payments infrastructure in one program."),
		kong.UsageOnError(), kong.ValueFormatter(secretHelp), kong.Resolvers(secretFiles()))
}
