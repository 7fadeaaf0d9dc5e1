package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/moov-io/ach"
	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/persistence/ident"
	"purser/persistence/money"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// achBank is a bank with the clock of a reportServer.
type achBank struct {
	*reportServer
	bank storedBank
}

// achBankOf returns a bank with two recipients, at noon of a Friday in New York.
func achBankOf(t *testing.T) (*achBank, map[string]string) {
	t.Helper()
	d := newReportServer()
	f := &achBank{reportServer: d, bank: d.openBank(t, vfs.NewMem())}
	t.Cleanup(func() { require.NoError(t, f.bank.Close()) })
	f.now = time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
	tokens := map[string]string{}
	for _, a := range []partner.Account{
		{Reference: "ada", Name: "Ada Lovelace", RoutingNumber: "021000021", AccountNumber: "000123456789",
			AccountType: "checking"},
		{Reference: "zoe", Name: "Zoë & Daughters, Overland Freight", RoutingNumber: "011401533",
			AccountNumber: "987654321",
			AccountType:   "savings"},
	} {
		token, err := f.bank.Tokenize(t.Context(), a)
		require.NoError(t, err)
		tokens[a.Reference] = token
	}
	return f, tokens
}

func (f *achBank) order(t *testing.T, n int, account, rail string, sameDay bool, cents money.Cents) string {
	t.Helper()
	reference := ident.Derive(16, time.UnixMilli(int64(n)), fmt.Sprint("payment ", n)).Format(ident.Payout)
	require.NoError(t, f.bank.Pay(t.Context(), partner.Payment{Reference: reference, Account: account, Rail: rail,
		SameDay: sameDay, AmountMinor: cents.Minor(), Description: fmt.Sprintf("Invoice %d", n)}))
	return reference
}

func (f *achBank) nacha(t *testing.T, day string) (string, int) {
	t.Helper()
	at, err := time.Parse(time.DateOnly, day)
	require.NoError(t, err)
	var out bytes.Buffer
	n, err := f.bank.WriteACH(t.Context(), at, &out)
	if errors.Is(err, partner.ErrNothingSent) {
		return "", 0
	}
	require.NoError(t, err)
	return out.String(), n
}

// readACH decodes a file with moov's reader and validates it with moov's validator.
func readACH(t *testing.T, text string) ach.File {
	t.Helper()
	file, err := ach.NewReader(strings.NewReader(text)).Read()
	require.NoError(t, err)
	require.NoError(t, file.Validate())
	return file
}

func TestNACHAFileOfADay(t *testing.T) {
	f, account := achBankOf(t)
	f.order(t, 1, account["ada"], "ach", false, 150_000)
	f.order(t, 2, account["zoe"], "ach", true, 2_505)
	f.order(t, 3, account["ada"], "wire", false, 77_700)
	twice := f.order(t, 4, account["zoe"], "ach", false, 1_001)
	require.NoError(t, f.bank.Pay(t.Context(), partner.Payment{Reference: twice, Account: account["zoe"], Rail: "ach",
		AmountMinor: 1_001}))
	text, n := f.nacha(t, "2026-11-20")
	require.Equal(t, 4, n, "one was ordered twice, and is paid twice")
	file := readACH(t, text)
	require.Len(t, file.Batches, 2)
	require.Equal(t, "261123", file.Batches[0].GetHeader().EffectiveEntryDate, "the next bank day after a Friday")
	require.Equal(t, "261120", file.Batches[1].GetHeader().EffectiveEntryDate)
	require.Equal(t, "SD1800", file.Batches[1].GetHeader().CompanyDescriptiveDate)
	require.Equal(t, 150_000+2_505+2*1_001, file.Control.TotalCreditEntryDollarAmountInFile)
	require.Zero(t, file.Control.TotalDebitEntryDollarAmountInFile)
	const golden = "testdata/nacha_2026-11-20.txt"
	if *rewrite {
		require.NoError(t, os.WriteFile(golden, []byte(text), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

// A payment is in the file of the day on which the bank sends it, by the time at which the bank
// took it.
func TestNACHADays(t *testing.T) {
	f, account := achBankOf(t)
	newYork, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	n := 0
	at := func(moment string, sameDay bool, day, effective string) {
		t.Helper()
		n++
		var err error
		f.now, err = time.ParseInLocation("2006-01-02 15:04", moment, newYork)
		require.NoError(t, err)
		cents := money.Cents(100_000 + n*100)
		f.order(t, 100+n, account["ada"], "ach", sameDay, cents)
		text, _ := f.nacha(t, day)
		for _, batch := range readACH(t, text).Batches {
			for _, entry := range batch.GetEntries() {
				if entry.Amount == int(cents) {
					require.Equal(t, effective, batch.GetHeader().EffectiveEntryDate)
					return
				}
			}
		}
		require.Fail(t, "not in the file of "+day)
	}
	at("2026-11-20 19:59", false, "2026-11-20", "261123")
	at("2026-11-20 20:00", false, "2026-11-23", "261124")
	at("2026-11-20 16:44", true, "2026-11-20", "261120")
	at("2026-11-20 16:45", true, "2026-11-23", "261123")
	at("2026-11-22 12:00", false, "2026-11-23", "261124")
	at("2026-11-25 12:00", false, "2026-11-25", "261127") // Thanksgiving is the 26th
	text, _ := f.nacha(t, "2026-11-26")
	require.Empty(t, text, "no bank day")
}

func TestTextBeyondTheNACHAFormatIsReplacedOrCut(t *testing.T) {
	f, _ := achBankOf(t)
	token, err := f.bank.Tokenize(t.Context(), partner.Account{Reference: "odd", Name: "日本\n5200\x00",
		RoutingNumber: "021000021",
		AccountNumber: "1234", AccountType: "checking"})
	require.NoError(t, err)
	reference := ident.Derive(16, time.UnixMilli(9), "odd").Format(ident.Payout)
	require.NoError(t, f.bank.Pay(t.Context(), partner.Payment{Reference: reference, Account: token, Rail: "ach",
		AmountMinor: 1_000, Description: strings.Repeat("é\r\n", 60)}))
	text, n := f.nacha(t, "2026-11-20")
	require.Equal(t, 1, n)
	readACH(t, text)
	for line := range strings.Lines(text) {
		require.Len(t, strings.TrimSuffix(line, "\n"), 94)
	}
	err = f.bank.Pay(t.Context(), partner.Payment{Reference: ident.Derive(16, time.UnixMilli(10),
		"much").Format(ident.Payout),
		Account: token, Rail: "ach", AmountMinor: 99_999_999_99 + 1})
	require.ErrorIs(t, err, partner.ErrRefused, "ten digits hold no more")
}

// An error about a file names no account number.
func TestNACHAErrorsHaveNoNumbers(t *testing.T) {
	f, _ := achBankOf(t)
	token, err := f.bank.Tokenize(t.Context(), partner.Account{Reference: "bad", Name: "Bad",
		RoutingNumber: "021000029",
		AccountNumber: "55501\u20acXYZ", AccountType: "checking"})
	require.NoError(t, err)
	reference := f.order(t, 7, token, "ach", false, 1_000)
	_, err = f.bank.WriteACH(context.Background(), time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), new(bytes.Buffer))
	require.ErrorContains(t, err, reference)
	require.NotContains(t, err.Error(), "55501")
	require.NotContains(t, err.Error(), "02100002")
}
