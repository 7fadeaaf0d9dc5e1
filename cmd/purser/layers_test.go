package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The arrows of the house: which packages of the project a package may import. What is not listed here may not exist.
// "cmd/purser" may import everything and nobody may import it.
var (
	leaves = []string{"actors/ident", "actors/money", "actors/fault", "actors/decision"}
	domain = []string{"actors/user", "actors/workspace", "actors/card", "actors/cardholder", "actors/counterparty",
		"actors/balance",
		"actors/webhook", "actors/agent", "actors/checkout", "actors/derivation", "actors/ramp"}
	arrows = map[string][]string{
		"actors/ident":    {},
		"actors/money":    {},
		"actors/fault":    {},
		"actors/decision": {},
		"actors/clock":    {},
		// for tests only: what every domain package's scenarios share
		"actors/decision/decisiontest": {"actors/decision", "actors/fault"},

		"authorizer/hold":     {"actors/ident", "actors/money"},
		"actors/user":         append([]string{"authorizer/hold"}, leaves...),
		"actors/workspace":    append([]string{"authorizer/hold"}, leaves...),
		"actors/card":         append([]string{"authorizer/hold"}, leaves...),
		"actors/cardholder":   leaves,
		"actors/counterparty": leaves,
		"actors/bankday":      {},
		// what an agent imports to sign its intents: it needs nothing of the rest
		"actors/agent/intent": {},
		"actors/agent":        append([]string{"actors/agent/intent"}, leaves...),
		"actors/webhook":      leaves,
		// addresses of an account, from its public key
		"actors/checkout/address": {},
		"actors/checkout":         append([]string{"actors/checkout/address"}, leaves...),
		"actors/derivation":       leaves,
		// that a wallet's key has signed
		"actors/ramp/proof": {"actors/checkout/address", "actors/agent/intent"},
		"actors/ramp":       append([]string{"actors/ramp/proof"}, leaves...),
		"actors/balance":    append([]string{"authorizer/hold"}, leaves...),

		"authorizer/forwarded": {},
		"authorizer/drain":     {"authorizer/forwarded"},
		"authorizer": {"authorizer/hold", "authorizer/drain", "authorizer/forwarded",
			"persistence/pebblegate", "actors/ident", "actors/money"},
		"persistence":            {"actors/ident"},
		"persistence/pebblegate": {},
		// alters disks for the tests of the stores
		"persistence/pebblegate/damagetest": {},
		"persistence/pebblejournal":         {"persistence", "persistence/pebblegate", "actors/ident"},
		"persistence/archive":               {"persistence", "actors/ident"},
		"persistence/journaltest":           {"persistence", "persistence/archive", "actors/ident"},
		"persistence/postgres":              {},
		"persistence/pgjournal":             {"persistence", "persistence/postgres", "actors/ident"},
		"persistence/kafka":                 {"persistence", "actors/ident"},
		"persistence/book":                  {"persistence", "persistence/postgres", "actors/ident", "actors/money"},
		"persistence/pgjournal/pgtest":      {},

		"actors/partner":       {},
		"actors/partner/chain": {"actors/partner"},
		"actors/watch":         {"actors/partner"},
		// for tests only: histories of chains, bad nodes, and who judges a watcher
		"actors/watch/watchtest":  {"actors/watch", "actors/partner"},
		"actors/seal":             {},
		"actors/partner/sandbox":  {"actors/partner", "actors/bankday", "persistence/pebblegate", "actors/ident", "actors/money"},
		"actors/partner/bankhttp": {"actors/partner", "actors/partner/sandbox"},
		"actors/audit":            {"persistence", "persistence/book", "authorizer", "authorizer/hold", "actors/ident", "actors/money"},
		"actors": slices.Concat(leaves, domain,
			[]string{"authorizer", "authorizer/hold", "persistence", "actors/partner", "actors/watch",
				"actors/checkout/address",
				"actors/bankday"}),

		"httpapi/openapi": {},
		// for tests only: the description as an independent library reads it
		"httpapi/openapi/openapitest": {"httpapi/openapi"},
		"httpapi/webhook":             {},
		"httpapi/mcp":                 {},
		"httpapi/password":            {},
		"httpapi/web":                 {},
		"httpapi/statement":           {"actors/money"},
		"bench":                       {},
		"httpapi": slices.Concat(leaves, domain,
			[]string{"actors", "actors/agent/intent", "actors/bankday", "authorizer", "authorizer/drain", "authorizer/hold", "persistence", "httpapi/openapi", "httpapi/mcp", "httpapi/password", "httpapi/statement", "httpapi/web",
				"httpapi/webhook", "actors/partner/chain"}),
	}
	// pure packages decide; they do no I/O, read no clock and draw no random numbers.
	pure = slices.Concat(leaves, domain, []string{"authorizer/hold", "authorizer/forwarded", "actors/agent/intent", "actors/bankday", "actors/clock", "httpapi/mcp", "actors/checkout/address",
		"actors/ramp/proof"})
	// impure is what no pure package may reach, even through another package.
	impure = []string{"github.com/asynkron/protoactor-go/", "github.com/cockroachdb/pebble", "github.com/valyala/fasthttp",
		"github.com/jackc/pgx", "crypto/rand", "math/rand", "net/http", "database/sql"}
	// clocks are the functions of package time that read or run on a clock.
	clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
)

type listed struct {
	ImportPath, Dir        string
	Imports, Deps, GoFiles []string
}

func TestArrowsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		name, _ := strings.CutPrefix(p.ImportPath, "purser/")
		if name == "cmd/purser" {
			continue
		}
		allowed, known := arrows[name]
		require.True(t, known, "package %s is not in the table of layers_test.go", name)
		for _, imported := range p.Imports {
			if rest, ours := strings.CutPrefix(imported, "purser/"); ours {
				require.Contains(t, allowed, rest, "%s may not import %s", name, rest)
			}
		}
	}
}

func TestPurePackagesReachNoClockNoChanceNoWire(t *testing.T) {
	for _, p := range packages(t) {
		name, _ := strings.CutPrefix(p.ImportPath, "purser/")
		if !slices.Contains(pure, name) {
			continue
		}
		for _, dep := range p.Imports {
			require.False(t, reaches(dep, impure), "%s imports %s", name, dep)
		}
		for _, dep := range p.Deps {
			require.False(t, reaches(dep, impure[:4]), "%s reaches %s", name, dep)
		}
		for _, file := range p.GoFiles {
			requireNoClock(t, filepath.Join(p.Dir, file))
		}
	}
}

func TestNoPackageIsNamedAfterNothing(t *testing.T) {
	for _, p := range packages(t) {
		for _, bad := range []string{"util", "utils", "common", "helper", "helpers", "model", "models", "types"} {
			require.NotEqual(t, bad, filepath.Base(p.ImportPath), p.ImportPath)
		}
	}
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,Deps,GoFiles", "purser/...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var all []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		all = append(all, p)
	}
	require.NotEmpty(t, all)
	return all
}

func reaches(dep string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return strings.HasPrefix(dep, root) })
}

// requireNoClock fails when a file calls a clock of package time.
func requireNoClock(t *testing.T, path string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	require.NoError(t, err)
	name := importedAs(file, "time")
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && name != "" && x.Name == name {
			require.NotContains(t, clocks, selector.Sel.Name, files.Position(selector.Pos()).String())
		}
		return true
	})
}

// importedAs returns the name under which a file knows an imported package, "" when it does not.
func importedAs(file *ast.File, path string) string {
	for _, spec := range file.Imports {
		if got, _ := strconv.Unquote(spec.Path.Value); got != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return filepath.Base(path)
	}
	return ""
}
