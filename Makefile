# Purser. `make run` starts it, `make test` proves it, `make demo` shows it.

FUZZTIME   ?= 15s
BENCHTIME  ?= 1s
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build run demo audit test race fuzz lint bench clean

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

# Every fuzzer of the tree, one after another, FUZZTIME each.
fuzz:
	.ci/fuzz $(FUZZTIME)

lint:
	.ci/lint $(STATICCHECK)

bench:
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

clean:
	rm -rf bin
