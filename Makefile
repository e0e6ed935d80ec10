# What a contributor and CI run; `make help` lists it. Every target installs
# what it lacks (tools/deps), so that a bare machine with Go, git, gcc and make
# will do.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# PoCL's CPU devices: two, so that bytes move between real OpenCL devices.
export POCL_DEVICES ?= pthread pthread

# FUZZTIME is for each fuzz target; TESTFLAGS may hold -run or -v.
FUZZTIME ?= 5s
# FOR is how long a soak runs in all; SOAKFLAGS may hold -race or -only NAME.
FOR ?= 1h
SOAKFLAGS ?=
TESTFLAGS ?=
OTHERS ?= darwin/arm64 windows/amd64 freebsd/amd64 linux/arm64
ARMPACKAGES ?= ./mem ./bufalloc ./migration ./runtime ./svm ./devices/cpu ./devices/tce
LINT := bin/golangci-lint
DEADCODE := bin/deadcode

.PHONY: help deps build lib run test lint vet fuzz bench soak nocgo others arm ci clean

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /|/' | awk -F'|' '{printf "  make %-6s %s\n", $$1, $$2}'

deps: ## install what is missing: OpenCL headers, loader and PoCL (Debian)
	@bash tools/deps

build: deps ## bin/godwit, and beside it what loads a user's allocator
	@if bash tools/deps --have; then go build -o bin/godwit ./cmd/godwit; \
	else echo "building without OpenCL devices: everything else works"; CGO_ENABLED=0 go build -o bin/godwit ./cmd/godwit; fi
	$${CC:-cc} -O2 -Wall -o bin/godwit-allochost bufalloc/extern/host/host.c -ldl

lib: deps ## bin/libgodwit.so, the OpenCL driver
	go build -buildmode=c-shared -o bin/libgodwit.so ./icd/libgodwit

run: build ## two scenarios on simulated devices: a real file's histogram, a stencil
	bin/godwit run examples/histogram.yaml --input text=docs/design.md
	bin/godwit run examples/halo.yaml

test: ## every test, with the race detector
	@bash tools/deps --icd
	go test -race $(TESTFLAGS) ./...

vet: deps ## go vet
	go vet ./...

lint: vet $(LINT) $(DEADCODE) ## go vet, golangci-lint and deadcode (pinned in tools/go.mod), a tidy go.mod
	go mod tidy -diff
	$(LINT) run ./...
	bash tools/deadcode

$(LINT): tools/go.mod tools/go.sum
	go build -modfile=tools/go.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(DEADCODE): tools/go.mod tools/go.sum
	go build -modfile=tools/go.mod -o $@ golang.org/x/tools/cmd/deadcode

fuzz: deps ## each fuzz target for FUZZTIME
	bash tools/fuzz $(FUZZTIME)

bench: deps ## every benchmark once, to keep them alive
	go test -run '^$$' -bench . -benchtime 1x ./... | { grep -v 'no test files' || true; }

soak: deps ## the long random tests and fuzz targets in turn, for FOR; goes on when stopped
	go run ./tests/soak -for $(FOR) $(SOAKFLAGS)

nocgo: ## everything but the OpenCL driver builds without cgo
	CGO_ENABLED=0 go build ./...
	CGO_ENABLED=0 go vet ./...

# What is Linux's own has a file for each system, or says that it is not there.
others: ## everything builds and vets for macOS, Windows, FreeBSD and arm64
	@for s in $(OTHERS); do echo "$$s"; \
	  CGO_ENABLED=0 GOOS=$${s%/*} GOARCH=$${s#*/} go build ./...; CGO_ENABLED=0 GOOS=$${s%/*} GOARCH=$${s#*/} go vet ./...; done

arm: ## tests on an emulated arm64 processor, whose memory model is weaker
	@bash tools/deps --arm
	@if command -v qemu-aarch64 >/dev/null; then CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go test -exec qemu-aarch64 $(ARMPACKAGES); \
	else echo "no qemu-aarch64 (Debian's qemu-user): not run"; fi

ci: deps lint nocgo others test arm fuzz bench ## what CI runs

clean: ## remove what was built
	rm -rf bin
