package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/checkout/address"
	"purser/actors/reports"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/httpapi"
	"purser/httpapi/webhook"
)

// reportStatus posts a report that matches nothing, with a signature of version 2 made at a time,
// and returns the answer's status.
func reportStatus(t *testing.T, p *process, path, id, secret string, at time.Time) int {
	t.Helper()
	body := fmt.Sprintf(`{"id":%q,"type":"a.type","data":{}}`, id)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.rest+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("partner-signature", webhook.SignRequest(secret, at,
		webhook.Request{Method: http.MethodPost, Path: path, Body: []byte(body)}))
	resp, err := p.http.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// TestOnePartnersSecretRotates gives the bank a secret of its own beside the common one, drops the
// common one for the bank, and rotates the bank's secret, all with the compiled program.
func TestOnePartnersSecretRotates(t *testing.T) {
	purser, data := program{path: buildProgram(t)}, filepath.Join(t.TempDir(), "data")
	file := settings.PartnerSecretFileOf(reports.Bank)
	launch(t, purser, data).signalAndWait(t, syscall.SIGTERM)
	common, sent := readSecrets(t, data, settings.PartnerSecretFile)[0], 0
	serves := func(bank, refusedByBank []string) {
		t.Helper()
		p := launch(t, purser, data)
		if len(bank) > 1 {
			passDemo(t, data) // the sandbox's partners report
		}
		status := func(path, secret string) int {
			sent++
			return reportStatus(t, p, path, fmt.Sprint("report ", sent), secret, time.Now())
		}
		for _, secret := range bank {
			require.Equal(t, http.StatusOK, status(httpapi.PathBankReports, secret))
		}
		for _, secret := range refusedByBank {
			require.Equal(t, http.StatusUnauthorized, status(httpapi.PathBankReports, secret))
		}
		require.Equal(t, http.StatusOK, status(httpapi.PathOnrampReports, common))
		require.Equal(t, http.StatusUnauthorized, status(httpapi.PathOnrampReports, bank[0]), "the bank's secret is valid for the ramp")
		p.signalAndWait(t, syscall.SIGTERM)
	}
	require.Contains(t, requireFailure(t, purser, data, "rotate", file, "--finish"), settings.PartnerSecretSetting(reports.Bank))
	requireSuccess(t, purser, data, "rotate", file)
	first := readSecrets(t, data, file)
	require.Equal(t, []string{first[0], common}, first)
	serves(first, nil)
	requireSuccess(t, purser, data, "rotate", file, "--finish")
	serves(first[:1], []string{common})
	requireSuccess(t, purser, data, "rotate", file)
	second := readSecrets(t, data, file)
	require.Equal(t, []string{second[0], first[0]}, second)
	serves(second, []string{common})
	requireSuccess(t, purser, data, "rotate", file, "--finish")
	serves(second[:1], []string{common, first[0]})
	requireSuccess(t, purser, data, "audit")
}

// TestAStartComparesItsSecrets: a start compares its secrets with those that the stores have used.
// If a partner's own file is missing, the common secret would become valid for that partner again,
// so the server refuses to start and names the repair.
func TestAStartComparesItsSecrets(t *testing.T) {
	t.Parallel()
	purser, data := program{path: buildProgram(t)}, filepath.Join(t.TempDir(), "data")
	file := settings.PartnerSecretFileOf(reports.Ramp)
	logOfStart := func() string {
		p := launch(t, purser, data)
		require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
		return p.log.String()
	}
	logOfStart()
	requireSuccess(t, purser, data, "rotate", file)
	const warning = "none of those that the stores have used"
	require.NotContains(t, logOfStart(), warning)

	require.NoError(t, os.Remove(filepath.Join(data, file)))
	refused := requireFailure(t, purser, data, "serve")
	require.Contains(t, refused, file+" is missing, but the stores have used one")
	require.Contains(t, refused, "set PURSER_PARTNER_SECRET_RAMP, or make a new one with `purser rotate "+file+
		" --lost")
	requireSuccess(t, purser, data, "rotate", "--lost", file)
	require.NoError(t, os.Remove(filepath.Join(data, datadir.NetworkSecretFile)))
	requireSuccess(t, purser, data, "rotate", "--lost", datadir.NetworkSecretFile)
	started := logOfStart()
	require.Equal(t, 2, strings.Count(started, warning), started)
	require.Contains(t, started, "secret="+file)
	require.Contains(t, started, "secret="+datadir.NetworkSecretFile)
	require.NotContains(t, logOfStart(), warning)

	seed := filepath.Join(data, settings.CheckoutSeedFile)
	require.NoError(t, settings.WriteSecret(seed, strings.Repeat("5e", address.SeedBytes)))
	started = logOfStart()
	require.Equal(t, 1, strings.Count(started, warning), started)
	require.Contains(t, started, "secret="+settings.CheckoutSeedFile)
	require.NotContains(t, logOfStart(), warning)
	requireSuccess(t, purser, data, "audit")
}

// TestTwoPartnersWithOneSecretOfTheirOwn are refused, for each could sign for the other.
func TestTwoPartnersWithOneSecretOfTheirOwn(t *testing.T) {
	config := testConfig(t, t.TempDir())
	config.PartnerSecrets.Own = map[string][]string{
		reports.Bank: {"a secret of two partners", "a secret of the bank"},
		reports.Ramp: {"a secret of two partners"},
	}
	err := newDaemon(config, slog.New(slog.DiscardHandler)).Start(t.Context())
	require.ErrorContains(t, err, "PURSER_PARTNER_SECRET_RAMP: has a secret of PURSER_PARTNER_SECRET_BANK too")
	require.NotContains(t, err.Error(), "a secret of two partners")
	config.PartnerSecrets.Own[reports.Ramp] = []string{"a secret of the ramp", "a secret of the bank"}
	require.NoError(t, config.FindSecrets(), "two partners have the same old secret")
}

// TestEachHolderHasSecretsOfItsOwn: with a secret that is valid for two parties, one could sign for
// the other. The exception is a partner that gets a secret of its own: it keeps the common one as
// the old one during its rotation.
func TestEachHolderHasSecretsOfItsOwn(t *testing.T) {
	const bank, ramp = "PURSER_PARTNER_SECRET_BANK", "PURSER_PARTNER_SECRET_RAMP"
	const network, common = "PURSER_NETWORK_SECRET", "PURSER_PARTNER_SECRET"
	const one, two, three = "the first secret", "the second secret", "the third secret"
	for _, c := range []struct {
		why                         string
		network, common, bank, ramp []string
		refused, with               string
	}{
		{"all differ", []string{"of the network"}, []string{one}, []string{two}, []string{three}, "", ""},
		{"the common one", nil, []string{one}, []string{one}, nil, bank, common},
		{"the new common one", nil, []string{two, one}, []string{two}, nil, bank, common},
		{"the old common one alone", nil, []string{two, one}, []string{one}, nil, bank, common},
		{"the common one first", nil, []string{one}, []string{one, two}, nil, bank, common},
		{"leaves the common one", nil, []string{one}, []string{two, one}, nil, "", ""},
		{"leaves a common one that rotates", nil, []string{three, one}, []string{two, one}, nil, "", ""},
		{"both leave the common one", nil, []string{one}, []string{two, one}, []string{three, one}, "", ""},
		{"another partner's", nil, []string{one}, []string{two}, []string{two}, ramp, bank},
		{"another partner's old one", nil, []string{one}, []string{three, two}, []string{two}, ramp, bank},
		{"the network's and the common one", []string{one}, []string{one}, nil, nil, common, network},
		{"the network's old one", []string{two, one}, []string{one}, nil, nil, common, network},
		{"the network's is a partner's old one", []string{one}, []string{two}, []string{three, one}, nil, bank,
			network},
		{"both rotate away", []string{two, one}, []string{three, one}, nil, nil, "", ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			config := testConfig(t, t.TempDir())
			config.NetworkSecrets = c.network
			config.PartnerSecrets = settings.PartnerSecrets{Common: c.common, Own: map[string][]string{}}
			for partner, own := range map[string][]string{reports.Bank: c.bank, reports.Ramp: c.ramp} {
				if own != nil {
					config.PartnerSecrets.Own[partner] = own
				}
			}
			err := config.FindSecrets()
			if c.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.refused+": has a secret of "+c.with+" too")
			require.NotContains(t, err.Error(), one)
			require.NotContains(t, err.Error(), two)
		})
	}
}
