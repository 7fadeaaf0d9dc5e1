package counterparty_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/counterparty"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/fault"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// scenario is one recipient; "save" begins a new one. Every step also checks the package's
// contract: events decode to themselves, and neither events nor state hold personal data or the
// account number.
type scenario struct {
	state   counterparty.State
	account counterparty.Account
}

func TestScenarios(t *testing.T) {
	decisiontest.Scenarios(t, func() decisiontest.Step { return new(scenario).step })
}

func (s *scenario) step(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "save":
		s.state, s.account = counterparty.State{}, counterparty.Account{}
		require.NoError(t, json.Unmarshal([]byte(d.Input), &s.account))
		return s.send(t, counterparty.Save{ID: "rcp_1", Workspace: "ws_1", Account: s.account})
	case "bank-takes-it":
		return s.send(t, counterparty.Tokenize{Token: "bat_1"})
	case "bank-refuses-it":
		return s.send(t, counterparty.Refuse{})
	case "remove":
		return s.send(t, counterparty.Remove{})
	case "five-minutes-later":
		return s.send(t, decision.Fire{Key: "forget"})
	case "read":
		return s.send(t, decision.Read{})
	}
	d.Fatalf(t, "no such step")
	return ""
}

func (s *scenario) send(t *testing.T, command any) string {
	d, err := decisiontest.Decide(t, &s.state, now, command)
	if err != nil {
		return decisiontest.RefusalLine(t, err)
	}
	var out strings.Builder
	out.WriteString(decisiontest.Apply(t, &s.state, decodeEvent, d.Events...))
	requireNoPersonalData(t, s.account, decisiontest.JSON(t, d.Events)+decisiontest.JSON(t, s.state))
	for _, r := range d.Records {
		out.WriteString(describeRecord(t, r))
	}
	for _, timer := range d.Timers {
		if timer.Due.IsZero() {
			fmt.Fprintf(&out, "  no longer: %s\n", timer.Key)
			continue
		}
		fmt.Fprintf(&out, "  in %s: %s\n", timer.Due.Sub(now), timer.Key)
	}
	out.WriteString(decisiontest.TallyLines(d.Tallies))
	if d.Reply != nil {
		fmt.Fprintf(&out, "answered: %s\n", decisiontest.JSON(t, d.Reply))
	}
	if out.Len() == 0 {
		return "nothing new\n"
	}
	return out.String()
}

func describeRecord(t *testing.T, r decision.Record) string {
	if r.Delete {
		return "  forgotten: " + r.Kind + "\n"
	}
	require.True(t, r.Personal)
	return fmt.Sprintf("  sealed record %s: %s\n", r.Kind, decisiontest.JSON(t, r.Document))
}

// requireNoPersonalData fails when the text holds the recipient's name, address or numbers.
func requireNoPersonalData(t *testing.T, a counterparty.Account, text string) {
	fields := []string{a.Name, a.AccountNumber, a.IBAN, a.RoutingNumber}
	if a.Address != nil {
		fields = append(fields, a.Address.Line1, a.Address.City)
	}
	for _, field := range fields {
		if field != "" {
			require.NotContains(t, text, field)
		}
	}
}

func TestUnknownCommandsAndEventsPanic(t *testing.T) {
	saved := counterparty.State{ID: "rcp_1"}
	require.Panics(t, func() { _, _ = saved.Decide(decision.Meta{}, 7) })
	require.Panics(t, func() {
		_, _ = saved.Decide(decision.Meta{},
			counterparty.Save{ID: "rcp_1", Workspace: "ws_1"})
	})
	require.Panics(t, func() { _, _ = saved.Decide(decision.Meta{}, counterparty.Tokenize{}) })
	require.Panics(t, func() { _, _ = saved.Decide(decision.Meta{}, decision.Fire{Key: "other"}) })
	require.Panics(t, func() { saved.Apply(nil) })
	_, err := new(counterparty.State).Decide(decision.Meta{}, decision.Read{})
	require.True(t, fault.Is(err, fault.NotFound))
}

// The checksums catch one wrong digit and two adjacent digits in the wrong order.
func TestMistypedAccountNumberIsRefused(t *testing.T) {
	good := counterparty.Account{
		Kind: counterparty.International, Name: "N", BIC: "DEUTDEFF", IBAN: "DE89370400440532013000", Currency: "EUR",
		Address: &counterparty.Address{Line1: "1", City: "C", PostalCode: "1", Country: "DE"},
	}
	require.NoError(t, good.Check())
	us := counterparty.Account{Kind: counterparty.US, Name: "N", RoutingNumber: "021000021", AccountNumber: "1234",
		AccountType: "checking"}
	require.NoError(t, us.Check())
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(4, len(good.IBAN)-1).Draw(t, "place")
		mistyped, off := good, rapid.ByteRange(1, 9).Draw(t, "off")
		mistyped.IBAN = changeDigit(good.IBAN, i, off)
		require.Error(t, mistyped.Check())
		if good.IBAN[i] != good.IBAN[i-1] && i > 4 {
			mistyped.IBAN = good.IBAN[:i-1] + good.IBAN[i:i+1] + good.IBAN[i-1:i] + good.IBAN[i+1:]
			require.Error(t, mistyped.Check())
		}
		wrong := us
		wrong.RoutingNumber = changeDigit(us.RoutingNumber, rapid.IntRange(0, 8).Draw(t, "digit"), off)
		require.Error(t, wrong.Check())
	})
}

// Each character of a BBAN is of the class that the registry says, and there are as many as it
// says.
func TestIBANsHaveTheStructureOfTheirCountry(t *testing.T) {
	text, err := os.ReadFile("testdata/iban_registry")
	require.NoError(t, err)
	accepts := func(iban string) bool {
		a := counterparty.Account{Kind: counterparty.International, Name: "N", IBAN: iban,
			BIC: "AAAA" + iban[:2] + "AA", Currency: "EUR", Address: &counterparty.Address{Line1: "1", City: "C",
				PostalCode: "1", Country: "DE"}}
		return a.Check() == nil
	}
	classes := map[string]string{"n": "0-9", "a": "A-Z", "c": "0-9A-Z"}
	countries := 0
	for line := range strings.Lines(string(text)) {
		example, structure, isEntry := strings.Cut(strings.TrimSpace(line), " ")
		if !isEntry || example == "#" {
			continue
		}
		countries++
		country, number := example[:2], example[4:]
		require.Equal(t, example, withCheckDigits(country, number))
		form := regexp.MustCompile("^" + regexp.MustCompile("([0-9]+)!([nac])").ReplaceAllStringFunc(structure,
			func(run string) string {
				n, class, _ := strings.Cut(run, "!")
				return "[" + classes[class] + "]{" + n + "}"
			}) + "$")
		require.True(t, accepts(example), example)
		changed := []string{number[1:], number + "0", number + "A"}
		for i := range number {
			changed = append(changed, number[:i]+"7"+number[i+1:], number[:i]+"K"+number[i+1:])
		}
		for _, other := range changed {
			iban := withCheckDigits(country, other)
			require.Equal(t, form.MatchString(other), accepts(iban), iban)
		}
	}
	require.Equal(t, 89, countries)
	for _, absent := range []string{"ZZ", "GG", "AX", "US"} {
		require.False(t, accepts(withCheckDigits(absent, "NWBK60161331926819")), absent)
	}
}

// withCheckDigits returns the IBAN of a country and a BBAN, with the check digits of ISO 13616.
func withCheckDigits(country, number string) string {
	digits := ""
	for _, c := range number + country + "00" {
		value, _ := strconv.ParseInt(string(c), 36, 64)
		digits += strconv.FormatInt(value, 10)
	}
	n, _ := new(big.Int).SetString(digits, 10)
	return fmt.Sprintf("%s%02d%s", country, 98-n.Mod(n, big.NewInt(97)).Int64(), number)
}

// All faults of an account are named at once.
func TestAllFaultsOfAnAccountAreNamed(t *testing.T) {
	us := counterparty.Account{Kind: counterparty.US, RoutingNumber: "021000022", AccountNumber: "1",
		AccountType: "checking"}
	require.EqualError(t, us.Check(), "invalid_body: name: 1 to 140 characters; "+
		"routingNumber: nine digits with a valid ABA checksum; accountNumber: 4 to 17 digits")
	abroad := counterparty.Account{Kind: counterparty.International, Name: "N", BIC: "X", Currency: "EUR",
		IBAN: "DE00", Address: &counterparty.Address{Line1: "1", PostalCode: "1", Country: "de"}}
	require.EqualError(t, abroad.Check(), "invalid_body: address.city: 1 to 60 characters; "+
		"address.country: two capital letters; bic: 8 or 11 characters of a bank's BIC; "+
		"iban: must have its country's structure and a valid checksum")
}

func changeDigit(number string, i int, off byte) string {
	return number[:i] + string((number[i]-'0'+off)%10+'0') + number[i+1:]
}
