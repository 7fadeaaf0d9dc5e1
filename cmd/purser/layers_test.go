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

// allowedImports lists the packages of the project that each package imports, without its tests.
// The table is exact: an import that is missing from it fails the test, and so does an entry
// without an import. It omits "cmd/purser", which may import every package and which no package
// imports.
var (
	leafPackages = []string{"persistence/ident", "persistence/money", "persistence/rfc3339", "actors/fault",
		"actors/decision"}
	domainPackages = []string{"actors/user", "actors/workspace", "actors/card", "actors/cardholder",
		"actors/counterparty", "actors/balance", "actors/webhook", "actors/agent", "actors/checkout",
		"actors/derivation", "actors/ramp"}
	allowedImports = map[string][]string{
		"persistence":         {"persistence/ident"},
		"persistence/archive": {"persistence", "persistence/dataformat", "persistence/ident"},
		"persistence/book": {
			"persistence", "persistence/consumer", "persistence/dataformat", "persistence/ident", "persistence/money",
			"persistence/postgres",
		},
		"persistence/consumer":    {"persistence", "persistence/ident", "persistence/retry"},
		"persistence/dataformat":  {},
		"persistence/ident":       {},
		"persistence/journaltest": {"persistence", "persistence/archive", "persistence/ident", "persistence/tail"},
		"persistence/kafka": {
			"persistence", "persistence/consumer", "persistence/ident", "persistence/retry",
		},
		"persistence/money":                 {},
		"persistence/pebblegate":            {"persistence/dataformat"},
		"persistence/pebblegate/damagetest": {},
		"persistence/pebblejournal": {
			"persistence", "persistence/dataformat", "persistence/ident", "persistence/pebblegate", "persistence/pebblelog",
			"persistence/tail",
		},
		"persistence/pgjournal": {
			"persistence", "persistence/dataformat", "persistence/ident", "persistence/postgres", "persistence/tail",
		},
		"persistence/pgjournal/pgtest": {},
		"persistence/postgres":         {},
		"persistence/retry":            {},
		"persistence/rfc3339":          {},
		"persistence/tail":             {"persistence", "persistence/ident"},
		"persistence/pebblelog":        {"persistence/pebblegate", "persistence/wal"},
		"persistence/wal":              {"persistence/dataformat", "persistence/pebblegate"},

		"authorizer": {
			"authorizer/hold", "authorizer/memtable", "persistence/dataformat", "persistence/ident", "persistence/money",
			"persistence/pebblegate", "persistence/wal",
		},
		"authorizer/front":     {"authorizer/forwarded"},
		"authorizer/forwarded": {},
		"authorizer/hold":      {"persistence/ident", "persistence/money"},
		"authorizer/memtable":  {"persistence/ident"},
		"authorizer/network": {
			"authorizer/front", "authorizer/forwarded", "authorizer/hold", "persistence/ident", "persistence/money",
			"persistence/rfc3339",
		},

		"actors": {
			"actors/balance", "actors/decision", "actors/fault", "authorizer", "authorizer/hold",
			"persistence", "persistence/ident", "persistence/money", "persistence/retry",
		},
		"actors/agent":        {"actors/agent/intent", "actors/decision", "actors/fault"},
		"actors/agent/intent": {},
		"actors/audit": {
			"authorizer", "authorizer/hold", "persistence", "persistence/book", "persistence/ident",
			"persistence/money",
		},
		"actors/balance": {
			"actors/decision", "actors/fault", "authorizer/hold", "persistence/ident", "persistence/money",
		},
		"actors/bankday": {},
		"actors/card": {
			"actors/decision", "actors/fault", "authorizer/hold", "persistence/ident", "persistence/money",
		},
		"actors/cardholder": {"actors/decision", "actors/fault"},
		"actors/checkout": {
			"actors/checkout/address", "actors/decision", "actors/fault", "persistence/money",
		},
		"actors/checkout/address":      {},
		"actors/clock":                 {},
		"actors/counterparty":          {"actors/decision", "actors/fault", "persistence/money"},
		"actors/decision":              {"persistence/money", "persistence/rfc3339"},
		"actors/decision/decisiontest": {"actors/decision", "actors/fault"},
		"actors/derivation":            {"actors/decision", "actors/fault"},
		"actors/fairshare":             {},
		"actors/fault":                 {},
		"actors/partner":               {"persistence/money"},
		"actors/partner/chain":         {"actors/partner"},
		"actors/partner/sandbox": {
			"actors/bankday", "actors/partner", "persistence/ident", "persistence/money",
			"persistence/pebblelog",
		},
		"actors/processes": {
			"actors", "actors/agent", "actors/balance", "actors/bankday", "actors/card", "actors/cardholder",
			"actors/checkout", "actors/checkout/address", "actors/counterparty", "actors/decision",
			"actors/derivation", "actors/fairshare", "actors/fault", "actors/partner", "actors/query",
			"actors/ramp", "actors/user", "actors/watch", "actors/webhook", "actors/workspace", "authorizer",
			"persistence", "persistence/consumer", "persistence/ident", "persistence/money", "persistence/retry",
		},
		"actors/query": {
			"actors", "actors/agent", "actors/balance", "actors/card", "actors/cardholder", "actors/checkout",
			"actors/counterparty", "actors/fault", "actors/ramp", "actors/user", "actors/webhook",
			"actors/workspace", "persistence", "persistence/ident", "persistence/money",
		},
		"actors/ramp":       {"actors/checkout/address", "actors/decision", "actors/fault", "actors/ramp/proof"},
		"actors/ramp/proof": {"actors/agent/intent", "actors/checkout/address"},
		"actors/reports": {
			"actors", "actors/balance", "actors/fault", "persistence", "persistence/ident", "persistence/money",
		},
		"actors/seal":            {},
		"actors/user":            {"actors/decision", "actors/fault", "persistence/ident"},
		"actors/watch":           {"actors/partner"},
		"actors/watch/watchtest": {"actors/partner", "actors/watch"},
		"actors/webhook":         {"actors/decision", "actors/fault"},
		"actors/workspace":       {"actors/decision", "actors/fault"},

		"httpapi": {
			"actors", "actors/agent", "actors/agent/intent", "actors/balance", "actors/bankday",
			"actors/card", "actors/cardholder", "actors/checkout", "actors/counterparty", "actors/decision",
			"actors/fairshare", "actors/fault", "actors/partner/chain", "actors/processes", "actors/query",
			"actors/ramp", "actors/reports", "actors/user", "actors/webhook", "actors/workspace",
			"authorizer/front", "httpapi/dashboard", "httpapi/guides",
			"httpapi/mail", "httpapi/mcp", "httpapi/openapi", "httpapi/password", "httpapi/reference", "httpapi/statement",
			"httpapi/web", "httpapi/webhook", "persistence/ident", "persistence/money", "persistence/rfc3339",
		},
		"httpapi/dashboard": {"actors/fault", "httpapi/highlight", "httpapi/web", "persistence/ident",
			"persistence/money"},
		"httpapi/guides":              {"httpapi/highlight"},
		"httpapi/highlight":           {},
		"httpapi/mail":                {"persistence/ident"},
		"httpapi/mcp":                 {},
		"httpapi/openapi":             {},
		"httpapi/openapi/openapitest": {"httpapi/openapi"},
		"httpapi/password":            {},
		"httpapi/reference":           {"persistence/ident"},
		"httpapi/statement":           {"persistence/money"},
		"httpapi/web":                 {"httpapi/highlight", "persistence/money"},
		"httpapi/webhook":             {},

		"bench": {},

		"cmd/purser/adminport": {"actors/fault", "cmd/purser/datadir"},
		"cmd/purser/apiclient": {"authorizer/hold", "cmd/purser/adminport", "persistence/retry"},
		"cmd/purser/buildinfo": {},
		"cmd/purser/datadir": {
			"authorizer", "persistence", "persistence/dataformat", "persistence/ident", "persistence/pebblegate",
			"persistence/pebblejournal", "persistence/pgjournal", "persistence/postgres",
		},
		"cmd/purser/demo": {
			"actors/agent/intent", "cmd/purser/adminport", "cmd/purser/apiclient", "cmd/purser/datadir",
			"persistence/ident", "persistence/retry",
		},
		"cmd/purser/loadtest": {
			"bench", "cmd/purser/adminport", "cmd/purser/datadir", "cmd/purser/settings", "cmd/purser/tuning",
			"persistence/retry",
		},
		"cmd/purser/settings": {
			"actors", "actors/balance", "actors/checkout", "actors/checkout/address", "actors/partner/chain",
			"actors/partner/sandbox", "actors/reports", "actors/seal", "authorizer", "authorizer/forwarded",
			"cmd/purser/adminport", "cmd/purser/datadir", "httpapi", "httpapi/mail", "httpapi/webhook", "persistence",
			"persistence/ident", "persistence/kafka", "persistence/pebblegate", "persistence/pebblejournal",
			"persistence/postgres",
		},
		"cmd/purser/storecare": {
			"actors", "actors/audit", "actors/balance", "actors/decision", "actors/fault", "actors/partner",
			"actors/partner/sandbox", "actors/processes", "actors/reports", "authorizer", "authorizer/hold",
			"cmd/purser/adminport", "cmd/purser/buildinfo", "cmd/purser/datadir", "cmd/purser/settings",
			"persistence", "persistence/archive", "persistence/book", "persistence/dataformat", "persistence/ident",
			"persistence/kafka", "persistence/money", "persistence/pebblegate", "persistence/pebblejournal",
			"persistence/pgjournal",
		},
		"cmd/purser/tuning": {},
	}
	// purePackages decide. They do no I/O, read no clock and use no random numbers.
	purePackages = slices.Concat(leafPackages, domainPackages, []string{"authorizer/hold", "authorizer/forwarded", "actors/agent/intent", "actors/bankday", "actors/clock", "httpapi/mcp", "actors/checkout/address",
		"actors/ramp/proof"})
	// impureImports may not be imported by a pure package, and the first four not even indirectly.
	impureImports = []string{"github.com/asynkron/protoactor-go/", "github.com/cockroachdb/pebble", "github.com/valyala/fasthttp",
		"github.com/jackc/pgx", "crypto/rand", "math/rand", "net/http", "database/sql"}
	// clockFunctions are the functions of package time that read a clock or run on one.
	clockFunctions = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
)

type goPackage struct {
	ImportPath, Dir        string
	Imports, Deps, GoFiles []string
}

func TestImportsMatchTheTable(t *testing.T) {
	for _, p := range listPackages(t) {
		name, _ := strings.CutPrefix(p.ImportPath, "purser/")
		if name == "cmd/purser" {
			continue
		}
		expected, known := allowedImports[name]
		require.True(t, known, "package %s is not in the table of layers_test.go", name)
		imported := []string{}
		for _, path := range p.Imports {
			if rest, ours := strings.CutPrefix(path, "purser/"); ours {
				imported = append(imported, rest)
			}
		}
		require.ElementsMatch(t, expected, imported, "the imports of %s", name)
	}
}

func TestPurePackagesUseNoClockRandomnessOrIO(t *testing.T) {
	for _, p := range listPackages(t) {
		name, _ := strings.CutPrefix(p.ImportPath, "purser/")
		if !slices.Contains(purePackages, name) {
			continue
		}
		for _, dep := range p.Imports {
			require.False(t, hasAnyPrefix(dep, impureImports), "%s imports %s", name, dep)
		}
		for _, dep := range p.Deps {
			require.False(t, hasAnyPrefix(dep, impureImports[:4]), "%s reaches %s", name, dep)
		}
		for _, file := range p.GoFiles {
			requireNoClock(t, filepath.Join(p.Dir, file))
		}
	}
}

func TestNoPackageHasAGenericName(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, bad := range []string{"util", "utils", "common", "helper", "helpers", "model", "models", "types"} {
			require.NotEqual(t, bad, filepath.Base(p.ImportPath), p.ImportPath)
		}
	}
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,Deps,GoFiles", "purser/...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var all []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
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

func hasAnyPrefix(dep string, roots []string) bool {
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
			require.NotContains(t, clockFunctions, selector.Sel.Name, files.Position(selector.Pos()).String())
		}
		return true
	})
}

// importedAs returns the name of an imported package in a file, or "" if the file does not import
// it.
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
