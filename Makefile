# What a contributor and CI run; `make help` lists it. Every target installs
# what it lacks (tools/deps), so that a bare machine with Go, git, gcc and make
# will do.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# PoCL's CPU devices: two, so that bytes move between real OpenCL devices.
export POCL_DEVICES ?= pthread pthread

# Paths stay out of what is built, tests too: else each package would be compiled once more for what is installed.
export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)

# The OpenCL headers say on every build that nobody said which version is wanted.
export CGO_CFLAGS ?= -O2 -g -DCL_TARGET_OPENCL_VERSION=300

# Where make install puts things; DESTDIR is put before all of it (for packages).
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
DATADIR ?= $(PREFIX)/share
VENDORS := $(DATADIR)/godwit/vendors

# FUZZTIME is for each fuzz target; TESTFLAGS may hold -run or -v.
FUZZTIME ?= 2s
BENCH := -bench . -skip '^BenchmarkPack$$/resnet50|^BenchmarkApplications$$' -benchtime 1x
# FOR is how long a soak runs in all; SOAKFLAGS may hold -race, -only NAME, -commands N (each suite once, whatever FOR), -seed N.
FOR ?= 1h
SOAKFLAGS ?=
TESTFLAGS ?=
OTHERS ?= darwin/arm64 windows/amd64
# What takes the system's own calls: these differ between systems that choose the same files.
SYSTEM := ./internal/outfile ./internal/process ./internal/storage ./lib/backend ./study/alloc/extern ./internal/journal ./svm
ARMPACKAGES ?= ./mem ./bufalloc ./migration ./runtime ./svm ./devices/cpu ./devices/tce
LINT := bin/golangci-lint
DEADCODE := bin/deadcode

.PHONY: help deps build lib man pictures install uninstall run test race lint fuzz bench soak nocgo others arm installed ci clean allocator

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /|/' | awk -F'|' '{printf "  make %-9s %s\n", $$1, $$2}'

deps: ## install what is missing: OpenCL headers, loader and PoCL (Debian)
	@bash tools/deps

build: deps ## bin/godwit, and beside it what loads a user's allocator
	@[ -e bin/godwit ] || echo "building bin/godwit (the first time takes a minute or two: OpenCL's bindings are C)"
	@if bash tools/deps --have; then go build -o bin/godwit ./cmd/godwit; \
	else echo "building without OpenCL devices: everything else works"; CGO_ENABLED=0 go build -o bin/godwit ./cmd/godwit; fi
	bash tools/licences bin/LICENCES
	$${CC:-cc} -O2 -Wall -o bin/godwit-allochost study/alloc/extern/host/host.c -ldl

lib: deps ## bin/libgodwit.so, the OpenCL driver
	go build -buildmode=c-shared -o bin/libgodwit.so ./cmd/libgodwit

man: build ## bin/man: man pages, made of the commands' own help
	go run ./cmd/godwit/internal/manpages bin/man

# The vendor file is off until it is named: OCL_ICD_VENDORS=$(VENDORS), or a link to it
# from /etc/OpenCL/vendors. What was built before is installed without Go, so that
# "make build lib man" and "sudo make install" may be two users' work.
install: bin/godwit bin/libgodwit.so bin/man/godwit.1 ## what was built, to PREFIX (/usr/local), under DESTDIR
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR) $(DESTDIR)$(VENDORS) $(DESTDIR)$(DATADIR)/man/man1 $(DESTDIR)$(DATADIR)/doc/godwit \
	  $(DESTDIR)$(DATADIR)/bash-completion/completions $(DESTDIR)$(DATADIR)/zsh/site-functions $(DESTDIR)$(DATADIR)/fish/vendor_completions.d
	install -m 755 bin/godwit bin/godwit-allochost $(DESTDIR)$(BINDIR)
	install -m 755 bin/libgodwit.so $(DESTDIR)$(LIBDIR)
	echo $(LIBDIR)/libgodwit.so > $(DESTDIR)$(VENDORS)/godwit.icd
	install -m 644 bin/man/*.1 $(DESTDIR)$(DATADIR)/man/man1
	install -m 644 LICENSE bin/LICENCES README.md CHANGELOG.md $(DESTDIR)$(DATADIR)/doc/godwit
	bin/godwit completion bash > $(DESTDIR)$(DATADIR)/bash-completion/completions/godwit
	bin/godwit completion zsh > $(DESTDIR)$(DATADIR)/zsh/site-functions/_godwit
	bin/godwit completion fish > $(DESTDIR)$(DATADIR)/fish/vendor_completions.d/godwit.fish

bin/godwit:
	$(MAKE) build

bin/libgodwit.so:
	$(MAKE) lib

bin/man/godwit.1:
	$(MAKE) man

uninstall: ## what make install put there
	rm -f $(DESTDIR)$(BINDIR)/godwit $(DESTDIR)$(BINDIR)/godwit-allochost $(DESTDIR)$(LIBDIR)/libgodwit.so \
	  $(DESTDIR)$(DATADIR)/man/man1/godwit.1 $(DESTDIR)$(DATADIR)/man/man1/godwit-*.1 \
	  $(DESTDIR)$(DATADIR)/bash-completion/completions/godwit $(DESTDIR)$(DATADIR)/zsh/site-functions/_godwit \
	  $(DESTDIR)$(DATADIR)/fish/vendor_completions.d/godwit.fish
	rm -rf $(DESTDIR)$(DATADIR)/godwit $(DESTDIR)$(DATADIR)/doc/godwit

run: build ## two scenarios on simulated devices: a real file's histogram, a stencil
	@echo; echo "a real file's histogram, on four simulated devices:"
	bin/godwit run examples/histogram.yaml --input text=docs/design.md
	@echo; echo "a stencil over four devices, of which only the edges move:"
	bin/godwit run examples/halo.yaml

# In ALONE nothing runs at the same time as anything else but what the runtime and its drivers have
# running, which their own tests race; what these packages start themselves is raced by RACES. The
# race detector makes two to six of each second there, and finds nothing more.
RACES := Signal|Interrupt|Cancel|Goroutines|OfOpenCL|RandomScenarios|NumberOfWorkers|RowsSayWhat
ALONE := bufalloc|cmd|eviction|migration|study|subbuffer|tests/(graphs|icd)|internal/(expr|figures|flat|heap|ledger|network|rangemap|suggest|yaml|yardstick)
test: ## every test, with the race detector where something runs beside something else
	@bash tools/deps --icd
	go test -timeout 30m $(TESTFLAGS) ./tests/icd $$(go list ./... | grep -E '^[^/]+/($(ALONE))(/|$$)')
	go test -race -timeout 30m $(TESTFLAGS) ./tests $$(go list ./... | grep -vE '^[^/]+/($(ALONE))(/|$$)')
	go test -race -timeout 30m -run '$(RACES)' $(TESTFLAGS) ./cmd/godwit/internal/cli ./study/alloc/formats ./study/alloc/replay ./study/calibrate ./study/scenario ./study/sweep

race: ## every test, with the race detector
	@bash tools/deps --icd
	go test -race -timeout 60m $(TESTFLAGS) ./tests/... ./...

# Both look without -trimpath, with which files that cgo makes are found in the build cache under
# another checkout's path; the linter's own cache is the checkout's, too.
lint: deps $(LINT) $(DEADCODE) ## golangci-lint (go vet is one of its linters) and deadcode (pinned in tools/go.mod), a tidy go.mod
	go mod tidy -diff
	GOFLAGS= GOLANGCI_LINT_CACHE=$(CURDIR)/bin/lintcache $(LINT) run ./...
	bash tools/deadcode

$(LINT): tools/go.mod tools/go.sum
	go build -modfile=tools/go.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(DEADCODE): tools/go.mod tools/go.sum
	go build -modfile=tools/go.mod -o $@ golang.org/x/tools/cmd/deadcode

fuzz: deps ## each fuzz target for FUZZTIME
	bash tools/fuzz $(FUZZTIME)

# Packages without benchmarks are not named, since each one's tests would be compiled and linked.
bench: deps ## every benchmark once, but one packing of a minute and programs that tests run too
	go test -vet=off -run '^$$' $(BENCH) $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n1 dirname | sort -u)

soak: deps ## the long random tests and fuzz targets in turn, for FOR; goes on when stopped
	go run ./tests/internal/soak -for $(FOR) $(SOAKFLAGS)

# Tests without cgo are vetted for Windows (others); here those that it leaves out.
nocgo: ## everything but the OpenCL driver builds without cgo
	CGO_ENABLED=0 go build ./...
	CGO_ENABLED=0 go vet $$({ grep -rlE --include='*_test.go' '^//go:build (linux|unix)' .; find . -name '*_linux_test.go'; } | xargs -n1 dirname | sort -u)

# What is Linux's own has a file for each system, or says that it is not there. FreeBSD chooses the
# files that macOS does, and no file is an arm64 processor's own: arm has tests run on one.
# Windows is the least like Linux: its tests are checked too.
others: ## everything builds for macOS, Windows, FreeBSD and arm64
	@for s in $(OTHERS); do echo "$$s"; CGO_ENABLED=0 GOOS=$${s%/*} GOARCH=$${s#*/} go build ./...; done
	CGO_ENABLED=0 GOOS=freebsd go build $(SYSTEM)
	CGO_ENABLED=0 GOOS=windows go vet ./...

arm: ## tests on an emulated arm64 processor, whose memory model is weaker
	@bash tools/deps --arm
	@if command -v qemu-aarch64 >/dev/null; then CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go test -vet=off -exec qemu-aarch64 $(ARMPACKAGES); \
	else echo "no qemu-aarch64 (Debian's qemu-user): not run"; fi

# An hour of processor time for ten seeds of each kind; SEEDS=1 is what one can wait for. STRATEGIES may hold lib:PATH.
SEEDS ?= 10
STRATEGIES ?= fit,bestfit,tight
allocator: ## the table of safe regions in docs/allocator.md
	go run ./study/alloc/extern/internal/tables -w -seeds $(SEEDS) -s $(STRATEGIES)

pictures: build ## docs/pictures: those of README, drawn in a headless Chromium
	bash tools/pictures bin/godwit docs/pictures

installed: build lib man ## what make install installs works for a user who may write nothing there
	GODWIT_TEST_INSTALL=1 go test -count 1 ./tests -run Installed

# What vet finds, lint has found. Three packages at a time keep two cores busy while one of them
# waits for a process or a device. Benchmarks are a step of their own: beside them go test runs
# one package after another. Of fuzz targets it sees that they run: tests have the committed corpora, soak the time.
ci: TESTFLAGS += -vet=off -p 3
ci: FUZZTIME = 1s
ci: deps lint nocgo others test arm installed fuzz bench ## what CI runs

clean: ## remove what was built
	rm -rf bin
