package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/adminport"
	"purser/cmd/purser/settings"
	"purser/cmd/purser/storecare"
	"purser/cmd/purser/tuning"
	"purser/persistence/pebblegate"
)

// postAdminCommand posts a command to the admin port of a server, as an operator does with curl.
func postAdminCommand(t *testing.T, m *daemon, command, body string) (status int, answer string) {
	t.Helper()
	client, base := adminport.NewClient(adminport.Reachable(m.listeners.admin.Addr()))
	resp, err := client.Post(base+"/"+command, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// startWithSettings starts a server with the test settings as changed by change.
func startWithSettings(t *testing.T, data string, change func(*settings.Settings)) *daemon {
	t.Helper()
	s := testSettings(t, data)
	change(&s)
	config, err := s.Config()
	require.NoError(t, err)
	m := newDaemon(config, debugLogger())
	require.NoError(t, m.Start(t.Context()))
	return m
}

// The admin port makes backups only in the backup directory, under plain names. It overwrites
// nothing and follows no link.
func TestRunningServerBacksUpOnlyIntoItsDirectory(t *testing.T) {
	t.Parallel()
	data, outside := t.TempDir(), t.TempDir()
	m := startServer(t, data)
	defer func() { require.NoError(t, m.Close()) }()
	for _, body := range []string{`{"directory":"` + outside + `/x"}`, `{"name":"../x"}`,
		`{"name":"` + outside + `/x"}`,
		`{"name":"a/b"}`, `{"name":".."}`, `{"name":".hidden"}`, `{"name":"-x"}`, `{"name":"a\u0000b"}`,
		`{"name":"` + strings.Repeat("x", 101) + `"}`, `{"name":7}`, `[]`, ``} {
		status, answer := postAdminCommand(t, m, "backup", body)
		require.Equal(t, http.StatusBadRequest, status, "%s: %s", body, answer)
		require.Contains(t, answer, "invalid_body", body)
	}
	_, answer := postAdminCommand(t, m, "backup", `{"directory":"`+outside+`/x"}`)
	require.Contains(t, answer, "directory is not a field of the command")

	backups := filepath.Join(data, "backups")
	require.NoError(t, os.Symlink(outside, backups))
	status, answer := postAdminCommand(t, m, "backup", `{"name":"one"}`)
	require.Equal(t, http.StatusInternalServerError, status)
	require.Contains(t, answer, "is a link or a file")
	require.NoError(t, os.Remove(backups))
	require.NoError(t, os.Mkdir(backups, 0o700))
	require.NoError(t, os.Symlink(filepath.Join(outside, "x"), filepath.Join(backups, "link")))
	status, answer = postAdminCommand(t, m, "backup", `{"name":"link"}`)
	require.Equal(t, http.StatusInternalServerError, status)
	require.Contains(t, answer, "is there already")
	status, answer = postAdminCommand(t, m, "backup", `{"name":"one"}`)
	require.Equal(t, http.StatusOK, status, answer)
	require.Contains(t, answer, filepath.Join(backups, "one"))
	status, answer = postAdminCommand(t, m, "backup", `{}`)
	require.Equal(t, http.StatusOK, status, answer)
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
	made, err := filepath.Glob(filepath.Join(backups, "*", storecare.ManifestFile))
	require.NoError(t, err)
	require.Len(t, made, 2)
}

// The backup command moves the backup of a running server to any directory that the command's user
// may write. No copy stays in the server's backup directory.
func TestBackupCommandWritesToAnyDirectory(t *testing.T) {
	data, made := t.TempDir(), filepath.Join(t.TempDir(), "made")
	m := startWithSettings(t, data, func(s *settings.Settings) { s.BackupDir = filepath.Join(data, "spool") })
	mustRun(t, "backup", "--data-dir", data, made)
	require.NoError(t, m.Close())
	require.FileExists(t, filepath.Join(made, storecare.ManifestFile))
	left, err := os.ReadDir(filepath.Join(data, "spool"))
	require.NoError(t, err)
	require.Empty(t, left)
	copied := filepath.Join(t.TempDir(), "copied") // stands for another file system
	whole, err := storecare.CheckBackup(made)
	require.NoError(t, err)
	room := storecare.BackupRoom{Free: func(string) (int64, error) { return whole.Bytes() - 1, nil }}
	answer := storecare.BackupAnswer{Directory: made, Manifest: whole.Manifest}
	require.ErrorIs(t, storecare.CopyBackup(answer, copied, room, nil), pebblegate.ErrNoRoom)
	require.DirExists(t, made)
	room.Free = func(string) (int64, error) { return whole.Bytes(), nil }
	require.NoError(t, storecare.CopyBackup(answer, copied, room, nil))
	_, err = storecare.CheckBackup(copied)
	require.NoError(t, err)
	require.NoDirExists(t, made)
}

// The admin port can be a unix socket. Only the server's user may connect to it. A
// start replaces the socket of a killed server, and never that of a running one or another file.
func TestAdminPortOnAUnixSocket(t *testing.T) {
	data, dir := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "admin.sock")
	socket := func(s *settings.Settings) { s.AdminAddr = "unix:" + path }
	m := startWithSettings(t, data, socket)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.ModeSocket|0o600, info.Mode())
	require.Contains(t, runAudit(t, data), "agree to the cent")
	passDemo(t, data)
	status, _ := postAdminCommand(t, m, "unmatched", `{}`)
	require.Equal(t, http.StatusOK, status)

	other := testSettings(t, t.TempDir())
	socket(&other)
	config, err := other.Config()
	require.NoError(t, err)
	err = newDaemon(config, slog.New(slog.DiscardHandler)).Start(t.Context())
	require.ErrorContains(t, err, "a running server listens on "+path)
	require.NoError(t, m.Close())
	require.NoFileExists(t, path)

	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	require.NoError(t, err)
	killed.SetUnlinkOnClose(false)
	require.NoError(t, killed.Close())
	require.FileExists(t, path, "a killed server leaves its socket")
	m = startWithSettings(t, data, socket)
	require.NoError(t, m.Close())

	require.NoError(t, os.WriteFile(path, []byte("another program's file"), 0o600))
	require.ErrorContains(t, newDaemon(config, slog.New(slog.DiscardHandler)).Start(t.Context()), "is not a socket")
	require.FileExists(t, path)
}

func TestAddressesOfTheAdminPort(t *testing.T) {
	f := func(address, hosts, want string) {
		t.Helper()
		s := defaults(t)
		s.AdminAddr, s.AdminHosts = address, hosts
		_, err := s.Config()
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, want)
	}
	f("unix:/run/purser/admin.sock", "", "")
	f("127.0.0.1:8082", "purser, Admin.internal", "")
	f("unix:admin.sock", "", "PURSER_ADMIN_ADDR: \"unix:admin.sock\" is not unix: and an absolute path")
	f("unix:/"+strings.Repeat("x", 107), "", "at most 107 bytes, this one has 108")
	f("127.0.0.1:8082", "purser:8082", "PURSER_ADMIN_HOSTS: \"purser:8082\" is not a host name")
	f("127.0.0.1:8082", "a,,b", "PURSER_ADMIN_HOSTS")
}

// The sandbox-pay command has the field names of a checkout session, and its error names each wrong
// field.
func TestSandboxPaymentNamesItsFieldsAsCheckoutDoes(t *testing.T) {
	m := startServer(t, t.TempDir())
	defer func() { require.NoError(t, m.Close()) }()
	pay := func(change func(fields)) (int, string) {
		body := fields{"chain": "base", "reference": "order-1", "from": "0xcustomer",
			"transfers": []fields{{"asset": "USDC", "address": shopAddress, "amountUnits": "25000000"}}}
		change(body)
		text, err := json.Marshal(body)
		require.NoError(t, err)
		return postAdminCommand(t, m, "sandbox-pay", string(text))
	}
	status, answer := pay(func(fields) {})
	require.Equal(t, http.StatusOK, status, answer)
	require.Contains(t, answer, `"txHash":"0x`)
	first := func(b fields) fields { return b["transfers"].([]fields)[0] }
	for want, change := range map[string]func(fields){
		"chain is not a chain":                           func(b fields) { b["chain"] = "dogecoin" },
		"reference must have":                            func(b fields) { delete(b, "reference") },
		"from must have":                                 func(b fields) { b["from"] = strings.Repeat("x", 201) },
		"transfers must be 1 to 16":                      func(b fields) { delete(b, "transfers") },
		"transfers/0/asset must be":                      func(b fields) { delete(first(b), "asset") },
		"transfers/0/address must be 0x and 40":          func(b fields) { delete(first(b), "address") },
		"transfers/0/address must be 0x":                 func(b fields) { first(b)["address"] = misspelledShop },
		"transfers/0/address must be an address of Bit":  func(b fields) { b["chain"] = "bitcoin" },
		"transfers/0/amountUnits must be":                func(b fields) { first(b)["amountUnits"] = "25.00" },
		"transfers/0/amountUnits cannot be read":         func(b fields) { first(b)["amountUnits"] = 25 },
		"transfers/0/Amount is not a field":              func(b fields) { first(b)["Amount"] = "25000000" },
		"references is not a field of the command":       func(b fields) { b["references"] = "x" },
		"transfers/0/amountUnits must be whole smallest": func(b fields) { first(b)["amountUnits"] = "-5" },
	} {
		status, answer := pay(change)
		require.Equal(t, http.StatusBadRequest, status, answer)
		require.Contains(t, answer, want)
	}
	status, answer = postAdminCommand(t, m, "sandbox-reorganise", `{"chain":"base","depht":1}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, answer, "depht is not a field of the command")
	for want, body := range map[string]string{
		"depth is out of range: there are 1 to ":        `{"chain":"base","depth":1000000000000}`,
		"depth is out of range":                         `{"chain":"base"}`,
		"drop: sandbox chain: no such transaction: 0xb": `{"chain":"base","depth":1,"drop":["0xb"]}`,
	} {
		status, answer = postAdminCommand(t, m, "sandbox-reorganise", body)
		require.Equal(t, http.StatusBadRequest, status, answer)
		require.Contains(t, answer, want)
	}
}

const (
	shopAddress    = "0x9858EfFD232B4033E47d90003D41EC34EcaEda94"
	misspelledShop = "0x9858EfFD232B4033E47d90003D41EC34EcaEda95"
)

// Chains know addresses by their value: a payment reaches its receiver in each spelling.
func TestSandboxPaymentReachesTheAddressInEachSpelling(t *testing.T) {
	m := startServer(t, t.TempDir())
	defer func() { require.NoError(t, m.Close()) }()
	const bitcoin = "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu"
	for i, c := range []struct{ chain, asset, watched, paid string }{
		{"base", "USDC", shopAddress, strings.ToLower(shopAddress)},
		{"polygon", "USDC", shopAddress, "0x" + strings.ToUpper(shopAddress[2:])},
		{"ethereum", "ETH", shopAddress, shopAddress},
		{"bitcoin", "BTC", bitcoin, strings.ToUpper(bitcoin)},
	} {
		status, answer := postAdminCommand(t, m, "sandbox-pay", fmt.Sprintf(
			`{"chain":%q,"reference":"%d","transfers":[{"asset":%q,"address":%q,"amountUnits":"25"}]}`,
			c.chain, i, c.asset, c.paid))
		require.Equal(t, http.StatusOK, status, answer)
		require.Eventually(t, func() bool {
			found, err := m.sandboxChains.Chain(c.chain).Transfers(t.Context(), 1, 1<<40, []string{c.watched})
			return err == nil && len(found) == 1 && found[0].Address == c.watched
		}, time.Minute, time.Millisecond, c.paid)
	}
}

// A secret on the command line is refused by the names of the settings in its place, and not shown.
func TestSecretsAreNoFlags(t *testing.T) {
	t.Setenv("PURSER_DATA_KEY", "a secret of the environment")
	for flag, variable := range map[string]string{"--network-secret=private": "PURSER_NETWORK_SECRET",
		"--chain-base-url=https://node.example/private": "PURSER_CHAIN_BASE_URL", "--database-url=private": "DATABASE_URL"} {
		chosen, err := parse([]string{"serve", "--data-dir", "x", flag}, io.Discard)
		require.NoError(t, err)
		err = refuseSecretFlags(chosen)
		require.ErrorContains(t, err, "set "+variable+", or "+variable+"_FILE")
		require.NotContains(t, err.Error(), "private")
	}
	chosen, err := parse([]string{"demo", "--data-dir", "x", "--network-secret-file", "y"}, io.Discard)
	require.NoError(t, err)
	require.NoError(t, refuseSecretFlags(chosen))
	command := purserCommand(program{path: buildProgram(t)}, t.TempDir(), "serve", "--network-secret", "private")
	said, err := command.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "PURSER_NETWORK_SECRET_FILE")
}

func TestSecretsComeFromFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("a secret of a file\n"), 0o600))
	read := func() (string, error) {
		var c commands
		parser, err := newParser(&c)
		require.NoError(t, err)
		_, err = parser.Parse([]string{"serve"})
		return c.Serve.NetworkSecret, err
	}
	t.Setenv("PURSER_NETWORK_SECRET_FILE", file)
	secret, err := read()
	require.NoError(t, err)
	require.Equal(t, "a secret of a file", secret)
	t.Setenv("PURSER_NETWORK_SECRET", "of the environment")
	_, err = read()
	require.ErrorContains(t, err, "PURSER_NETWORK_SECRET and PURSER_NETWORK_SECRET_FILE are both set")
	t.Setenv("PURSER_NETWORK_SECRET", "")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("x"), maxSecretFile+1), 0o600))
	_, err = read()
	require.ErrorContains(t, err, "is not a file of at most 65536 bytes")
	require.NoError(t, os.WriteFile(file, []byte(" \n"), 0o600))
	_, err = read()
	require.ErrorContains(t, err, "is empty")
	t.Setenv("PURSER_NETWORK_SECRET_FILE", filepath.Join(t.TempDir(), "nowhere"))
	_, err = read()
	require.ErrorContains(t, err, "PURSER_NETWORK_SECRET_FILE")
}

// A server's profiles of waiting have samples.
func TestWaitingIsProfiled(t *testing.T) {
	t.Parallel()
	p, addresses := startCommand(t, purserCommand(program{path: buildProgram(t)}, t.TempDir(), "serve"))
	p.admin = "http://" + addresses["admin"]
	require.Contains(t, p.adminPage("/debug/pprof/mutex?debug=1"), fmt.Sprint("sampling period=", tuning.MutexProfileFraction))
	require.Eventually(t, func() bool { return strings.Contains(p.adminPage("/debug/pprof/block?debug=1"), "purser/") },
		time.Minute, 10*time.Millisecond, "the block profile has samples of the server's loops")
}
