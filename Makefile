# Purser. `make run` starts it, `make test` proves it, `make demo` shows it.

FUZZTIME   ?= 15s
BENCHTIME  ?= 1s
BENCHNAME  ?= bench/results/short
ON_KAFKA    = TestTheRealProcess/kill_-9/postgres|TestSwipesDoNotNoticeAnOutage
VERSION    ?= $(shell sed -n 's/^var Version = "\(.*\)"/\1/p' cmd/purser/buildinfo/buildinfo.go)
PLATFORMS  ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
SBOM        = github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: build release run demo audit up down test test-busy test-full verify attacks race race-short walk walk-postgres walk-kafka model test-kafka test-evm mutants fuzz fuzz-edge clients schemathesis mcp-conformance pages histories lint vuln bench bench-cards microbench clean

# Static, as in the image: with C in it, Pebble's caches come from an allocator that neither gives back nor counts.
# The commit is stamped, with "+" behind it when the tree but for results is not the commit's; none without a repository of its own.
build:
	built=$$(git rev-parse --verify --quiet --short=12 HEAD 2>/dev/null) && test -z "$$(git rev-parse --show-prefix)" || built=; \
	test -z "$$built" || test -z "$$(git status --porcelain -- . ':!bench/results')" || built=$$built+; \
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-X purser/cmd/purser/buildinfo.Stamped=$$built" -o bin/purser ./cmd/purser

# Static, stripped binaries in dist for each of PLATFORMS, a software bill of materials (CycloneDX), and
# the checksums of all. The binaries of a commit are the same, byte for byte, in whatever folder they are built.
release:
	rm -rf dist && mkdir dist
	built=$$(git rev-parse --verify --short=12 HEAD) && { test -z "$$(git status --porcelain)" || built=$$built+; } && \
	for platform in $(PLATFORMS); do \
		echo "purser $(VERSION) $$platform" && \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} go build -trimpath -buildvcs=false \
			-ldflags "-s -w -X purser/cmd/purser/buildinfo.Version=$(VERSION) -X purser/cmd/purser/buildinfo.Stamped=$$built" \
			-o dist/purser-$(VERSION)-$${platform%/*}-$${platform#*/} ./cmd/purser || exit 1; \
	done
	go run $(SBOM) mod -json -licenses=false -noserial -output dist/purser-$(VERSION).cdx.json
	cd dist && sha256sum * >SHA256SUMS

run: build
	./bin/purser serve

demo: build
	./bin/purser demo

audit: build
	./bin/purser audit

# Purser beside Postgres, Kafka, Prometheus, Alertmanager and Grafana (Docker). down keeps the volumes.
up:
	docker compose up --build --detach --wait

down:
	docker compose down

# Without vet, which make lint runs with all its analyzers. The longest packages come first: two run at a time on two processors, and in
# the order of their names the last one ran alone for two minutes. actors, which leaves no processor idle, runs after most of cmd/purser.
test:
	go test $(TESTFLAGS) -vet=off -timeout 60m ./cmd/purser ./httpapi ./persistence/pgjournal ./persistence/book ./actors ./...

# make test on a machine that is busy and stands still at times. No test may notice.
test-busy:
	.ci/busy $(MAKE) test TESTFLAGS=-count=1

# What make test leaves out: the suites that kill the program, cut its commits, take its stores away, move and damage them, and
# loads, in full length: about half an hour.
test-full:
	PURSER_TEST_FULL=1 go test -count=1 -timeout 90m -v -skip '^TestAttack' ./cmd/purser

# All that is checked before a release, a line for each step; about three hours. .ci/verify STEP... runs some.
verify:
	.ci/verify

# Every attack on the program in its long form, one package after another: tests named TestAttack. make test runs them in their short form.
attacks:
	PURSER_TEST_FULL=1 go test -count=1 -p 1 -timeout 120m -v -run '^TestAttack' ./...

# The tests in which the race detector can see something, in short form. It needs a C compiler.
race:
	.ci/race

# The same for the packages with concurrency of their own and a tenth of httpapi, as the gate runs it.
race-short:
	.ci/race short

# The built program: demo, kill -9, the same answers again, audit, backup, rebuild, restore. On Postgres, and on Postgres and Kafka.
walk: build
	.ci/walk

walk-postgres: build
	.ci/postgres .ci/walk

walk-kafka: build
	.ci/kafka .ci/postgres .ci/walk

# 100,000 random operations on each journal: deposits, swipes, clearings, payouts with every outcome, fees, months, restarts, crashes and a
# rebuild, against a model, to the cent; and 50,000 over balances in currencies. make test runs 2,000, on Postgres 200, and 480.
# Then 1,000 random histories of one shard of a journal on Postgres, against the contract's model. make test runs 10.
model:
	PURSER_MODEL_OPS=100000 go test -count=1 -timeout 180m -parallel 4 -run TestRandomLivesAddUp -v ./actors
	PURSER_MODEL_OPS=50000 go test -count=1 -timeout 60m -run TestRandomConversionsAddUp -v ./actors
	go test -count=1 -timeout 60m -run TestContract/model -v ./persistence/pgjournal -rapid.checks=1000

# The Kafka suite against KAFKA_BROKERS_TEST, else against a real Apache Kafka that the script starts (Java 17, Maven). Then the program
# beside it: killed, and with its stores stopped for a while; one after another, for they share the broker and its topic. make test-full
# runs both beside a Kafka in the test's process.
test-kafka:
	$(if $(KAFKA_BROKERS_TEST),,.ci/kafka) go test -count=1 -timeout 10m -v ./persistence/kafka
	PURSER_TEST_FULL=1 $(if $(KAFKA_BROKERS_TEST),,.ci/kafka) go test -count=1 -timeout 45m -parallel 1 -v -run '$(ON_KAFKA)' ./cmd/purser

# Checkout against a real EVM: go-ethereum's in a module of its own, the program beside it.
test-evm:
	cd actors/partner/chain/evmtest && go vet ./... && go mod verify && go test -count=1 -timeout 10m -v ./...

# Patches that break one promise each (.ci/mutants): the tests of the packages concerned must fail for each.
mutants:
	.ci/mutate

# Every fuzzer of the tree, one after another, FUZZTIME each.
fuzz:
	.ci/fuzz $(FUZZTIME)

# Whole requests as bytes, for an hour.
fuzz-edge:
	go test ./httpapi -run '^$$' -fuzz '^FuzzRequest$$' -fuzztime 1h

# The hosted checkout page, the guides and the dashboard in a real Chromium; the pictures are left in bin/pages.
pages: build
	.ci/pages bin/pages

# 200,000 random histories of chains with bad nodes, and 20,000 of links that are paid. make test runs 20,000 and 100.
histories:
	PURSER_HISTORIES=200000 go test -count=1 -timeout 30m -run TestEveryTransferOfARandomHistoryIsReportedTruthfully -v ./actors/watch
	go test -count=1 -timeout 30m -run TestRandomHistoriesAgreeWithTheModel -v ./actors/checkout -rapid.checks=20000

# Linters find nothing in the description, and clients that generators make of it (Python, TypeScript,
# Go) go from sign-up to a webhook against a server. Needs Node, Python and Java.
clients: build
	.ci/foreign/run

# schemathesis against a server, with a key and with a session: three minutes, or PURSER_SCHEMATHESIS_SECONDS.
schemathesis: build
	.ci/foreign/schemathesis

# The conformance suite of the Model Context Protocol against a server. Needs Node.
mcp-conformance: build
	.ci/foreign/mcp

lint:
	.ci/lint $(STATICCHECK)

# Known vulnerabilities in the packages that Purser calls. Where the database does not answer it says that nothing was checked.
vuln:
	.ci/vuln $(GOVULNCHECK)

# Every kind of stream against a server of its own, in about two minutes, with the machine's own figures beside them. With DATABASE_URL
# (an empty database) and KAFKA_BROKERS it runs on those. The result is BENCHNAME.json and BENCHNAME.html.
bench: build
	./bin/purser bench short --out $(BENCHNAME)

# A million cards, made through REST in about five minutes: swipes of all of them alike, and three kill -9 under these swipes.
bench-cards: build
	./bin/purser bench authorize --own --cards 1000000 --workspaces 1000 --spread uniform --kills 3 --out bench/results/cards

microbench:
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

clean:
	rm -rf bin
