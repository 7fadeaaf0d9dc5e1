# Purser. `make run` starts it, `make test` proves it, `make demo` shows it.

FUZZTIME   ?= 15s
BENCHTIME  ?= 1s
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build run demo audit test race model test-kafka fuzz fuzz-edge clients lint bench clean

build:
	go build -trimpath -o bin/purser ./cmd/purser

run: build
	./bin/purser serve

demo: build
	./bin/purser demo

audit: build
	./bin/purser audit

test:
	go test -timeout 8m ./...

# The race detector needs a C compiler.
race:
	CGO_ENABLED=1 go test -race -short -timeout 20m ./...

# 100,000 random operations over cards and balance, with restarts, months and a rebuild. make test runs 10,000.
model:
	PURSER_MODEL_OPS=1000 go test -count=1 -timeout 30m -run TestRandomLivesAddUp -v ./actors

# The Kafka suite against KAFKA_BROKERS_TEST, else against a real Apache Kafka that the script starts (Java 17, Maven).
test-kafka:
	$(if $(KAFKA_BROKERS_TEST),,.ci/kafka) go test -count=1 -timeout 10m -v ./persistence/kafka

# Every fuzzer of the tree, one after another, FUZZTIME each.
fuzz:
	.ci/fuzz $(FUZZTIME)

# Whole requests as bytes, for an hour.
fuzz-edge:
	go test ./httpapi -run '^$$' -fuzz '^FuzzRequest$$' -fuzztime 1h

# Clients generated from the description compile (Node).
clients:
	.ci/clients

lint:
	.ci/lint $(STATICCHECK)

bench:
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

clean:
	rm -rf bin
