package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moov-io/ach"
	"github.com/stretchr/testify/require"

	"purser/actors/bankday"
	"purser/actors/partner"
	"purser/cmd/purser/settings"
	"purser/persistence/ident"
)

// TestExportNACHA makes an ACH payment and exports the bank's NACHA file of the day from the
// running server. The file is readable by its owner only, and account numbers are not in the log.
func TestExportNACHA(t *testing.T) {
	data := t.TempDir()
	var log bytes.Buffer // read only after the server has stopped
	m := newDaemon(testConfig(t, data), settings.NewLogger(&log,
		settings.Config{LogLevel: slog.LevelDebug, LogFormat: settings.LogJSON}))
	now := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)
	m.Clock = func() time.Time { return now } // a fixed time, so that no cut-off passes during the test
	require.NoError(t, m.Start(t.Context()))
	calendar, err := bankday.New()
	require.NoError(t, err)
	account := partner.Account{Reference: "ada", Name: "Ada Lovelace", RoutingNumber: "021000021",
		AccountNumber: "000555123789", AccountType: "checking"}
	token, err := m.partners.bank.Tokenize(t.Context(), account)
	require.NoError(t, err)
	day := calendar.SendingDay(now, bankday.CutOffACH).Format(time.DateOnly)
	require.NoError(t, m.partners.bank.Pay(t.Context(), partner.Payment{Account: token, Rail: "ach", AmountMinor: 4_200,
		Description: "rent", Reference: ident.Derive(16, time.UnixMilli(1), "one").Format(ident.Payout)}))
	export := func(day string, flags ...string) (string, error) {
		var out strings.Builder
		err := run(append([]string{"export", "nacha", "--data-dir", data, "--day", day}, flags...), &out)
		return out.String(), err
	}
	text, err := export(day)
	require.NoError(t, err)
	file, err := ach.NewReader(strings.NewReader(text)).Read()
	require.NoError(t, err)
	require.NoError(t, file.Validate())
	require.Equal(t, 4_200, file.Control.TotalCreditEntryDollarAmountInFile)
	require.Contains(t, text, account.AccountNumber)

	name := filepath.Join(t.TempDir(), "day.ach")
	printed, err := export(day, "--out", name)
	require.NoError(t, err)
	require.Equal(t, "1 payments in "+name+"\n", printed)
	kept, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, text, string(kept))
	mode, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), mode.Mode())
	_, err = export(day, "--out", name)
	require.ErrorIs(t, err, os.ErrExist, "an existing file is not overwritten")
	_, err = export("1999-01-04")
	require.ErrorIs(t, err, partner.ErrNothingSent)
	_, err = export("4 January")
	require.ErrorContains(t, err, "YYYY-MM-DD")
	require.NoError(t, m.Close())
	require.NotContains(t, log.String(), account.AccountNumber)
	_, err = export(day)
	require.ErrorContains(t, err, "no server runs")
	require.ErrorContains(t, run([]string{"export", "nacha", "--day", day, "--data-dir", t.TempDir()}, io.Discard),
		"data directory")
}
