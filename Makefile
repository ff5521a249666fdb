# make test        tests of each part, all that is in virtual time, 500
#                  seeds of the simulation, and every type of lock on a
#                  real server, with the race detector: six minutes. Installs redis-server
#                  where it can
# make test-all    real faults, freezes, failovers and clusters as well: twelve minutes
# make test-servers  every test on older and newer Redis and on Valkey as well, which it fetches.
#                  SERVERS="redis-8.6 valkey-9.1": some of them
# make test-go     builds with the oldest Go of go.mod, and runs the quick tests on the newest
# make sim         the simulation with SEEDS seeds from FIRST on; make test has the first 500
# make mutants     puts deliberate bugs in, one at a time, and tells which test catches each: a
#                  quarter of an hour or more. RUN=regexp, SEEDS=n
# make fuzz        the fuzz tests, FUZZTIME each: names, tickets, replies, messages, URLs of
#                  the command, and plans of the simulation
# make spec        every state of small worlds of the specification, and its deliberate bugs: five
#                  minutes; spec-small, one. See docs/proof.md
# make lint        gofmt, go vet and staticcheck in every module; luacheck, which is the
#                  Debian package lua-check
# make bench       the benchmarks, as a table of figures beside their floors.
#                  NAMES=1000000 for the full number of names; see CONTRIBUTING.md
# make bench-peers the same scenarios for relock and other libraries, side by side
# make faults      what happens to relock and other libraries when processes die, freeze, or lose
#                  Redis, as a table: a quarter of an hour
# make interop     relock and the real Redisson share locks: a quarter of an hour; needs
#                  Java and Maven. STRESS, LEASE, SAMPLES, SHARE: see interop/README.md
# make cover       coverage, of the library by all its tests
# make vuln        known vulnerabilities that the code reaches (govulncheck)
# make api         what has changed in the API since the last release; STRICT=1 fails if a change
#                  breaks users. BASE=tag or commit
# make release-check  what a release would publish can be installed and imported
# make dist        the command for five platforms, with checksums and SBOMs, in dist
# make fmt, tidy   fix what lint and CI report

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
MODULES     := $(patsubst %/go.mod,%,$(shell find . -name go.mod -not -path '*/.*/*'))

# The race detector needs a C compiler. It does not watch the memory of the Lua in the in-memory Redis, nor what that
# does most. None of these uses sync.Map: the linker may take its code from any package
# that does, and what is not watched there shows as a race elsewhere.
UNWATCHED := github.com/yuin/gopher-lua/... bufio bytes fmt strconv strings
RACE ?= $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race $(UNWATCHED:%=-gcflags=%=-race=false))

# Those that take longest begin first.
PACKAGES ?= ./test/virtual ./test/locks ./...

# Most tests wait, so more of them run at once than there are processors.
PARALLEL ?= 8

# The oldest Go that go.mod names, and the newest; the one in between is that of the machine.
OLDEST_GO ?= go1.25.0
NEWEST_GO ?= go1.27.4

.PHONY: build fuzz spec spec-small test test-all test-servers test-go sim redis lint fix-check fmt tidy
.PHONY: bench bench-peers faults interop cover mutants vuln api release-check dist

build:
	@for m in $(MODULES); do (set -x; cd $$m && $(GO) build ./...) || exit; done

test: redis
	@if [ -z "$(RACE)" ]; then echo "make test: no C compiler. Left out: the race detector." >&2; fi
	GORACE="atexit_sleep_ms=50 $$GORACE" $(GO) test $(RACE) -ldflags=-w -timeout 30m -parallel $(PARALLEL) $(TESTFLAGS) $(PACKAGES)

test-all: export RELOCK_ALL := 1
test-all: PARALLEL := 4
test-all: test

test-servers:
	RELOCK_ALL=1 SERVERS="$(SERVERS)" bash scripts/test-servers.sh $(GO) test $(RACE) -timeout 30m $(TESTFLAGS) $(PACKAGES)

# What is in virtual time, and of one package alone: that tests run on the newest Go at all.
test-go:
	GOTOOLCHAIN=$(OLDEST_GO) $(GO) build ./...
	GOTOOLCHAIN=$(NEWEST_GO) $(GO) vet ./...
	GOTOOLCHAIN=$(NEWEST_GO) $(GO) test -count=1 . ./internal/... ./relocktest ./test/virtual ./test/locks

SEEDS ?= 10000
FIRST ?= 501

sim:
	cd test/sim && $(GO) test -run Simulation -timeout 0 $(TESTFLAGS) -sim.first=$(FIRST) -sim.seeds=$(SEEDS)

redis:
	@bash scripts/install-redis.sh

FUZZTIME ?= 10s
FUZZ     := internal/wire:FuzzNames internal/wire:FuzzTickets internal/wire:FuzzReplies \
	internal/wire:FuzzForeignKeys internal/queue:FuzzMessages \
	cmd/relock/internal/connect:FuzzAddresses test/sim:FuzzPlan

fuzz:
	@set -e; for f in $(filter-out $(NOFUZZ),$(FUZZ)); do \
		(set -x; cd $${f%%:*} && $(GO) test -run '^$$' -fuzz "^$${f##*:}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x .); done

spec:
	$(GO) test -count=1 -timeout 60m ./test/spec -run 'Worlds|Redlocks|BugsAreFound' -v $(TESTFLAGS) -spec.worlds=all

spec-small:
	$(GO) test -count=1 -timeout 30m ./test/spec -run 'Worlds|Redlocks|BugsAreFound' -v $(TESTFLAGS) -spec.worlds=small

lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted" >&2; exit 1; fi
	@for m in $(MODULES); do (set -x; cd $$m && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...) || exit; done
	GOARCH=386 $(GO) build . # 32 bits
	luacheck --no-color -q lua

# With the newest Go, whose "go fix" knows most.
fix-check:
	@for m in $(MODULES); do \
		fixes=$$(set -x; cd $$m && GOTOOLCHAIN=$(NEWEST_GO) $(GO) fix -diff ./...) && [ -z "$$fixes" ] || \
			{ echo "$$fixes"; exit 1; }; done

mutants: redis
	$(GO) vet -tags mutants ./test/mutants && $(GO) test -tags mutants ./test/mutants
	$(GO) run ./test/mutants $(if $(RUN),-run '$(RUN)') -seeds $(SEEDS)

fmt:
	gofmt -w .

tidy:
	@GO=$(GO) bash scripts/tidy.sh

release-check:
	$(GO) run ./test/release

vuln:
	@GO=$(GO) bash scripts/vuln.sh

api:
	@GO=$(GO) BASE=$(BASE) STRICT=$(STRICT) API_MODULES="$(API_MODULES)" bash scripts/api.sh

dist:
	@GO=$(GO) PLATFORMS="$(PLATFORMS)" bash scripts/dist.sh

bench: redis
	$(GO) test -run '^$$' -bench '^BenchmarkTable$$' -benchtime 1x -timeout 10m $(BENCHFLAGS) ./test/bench $(if $(NAMES),-args -names $(NAMES))

STRESS  ?= 1m
LEASE   ?= 30s
SAMPLES ?= 200
SHARE   ?= 10s

interop: redis
	cd interop && RELOCK_REQUIRE_REDIS=1 RELOCK_REQUIRE_JAVA=1 RELOCK_INTEROP_STRESS=$(STRESS) \
		RELOCK_INTEROP_LEASE=$(LEASE) RELOCK_INTEROP_SAMPLES=$(SAMPLES) RELOCK_INTEROP_SHARE=$(SHARE) \
		$(GO) test -v -count=1 -timeout 40m $(TESTFLAGS) .

bench-peers: redis
	mkdir -p bench/out
	cd bench && $(GO) run . -md out/peers.md -svg out/peers.svg -herd out/herd.svg -sweep out/locality.svg $(PEERFLAGS)

faults: redis
	cd bench/faults && $(GO) run . $(FAULTSFLAGS)

COVERED = $(shell $(GO) list -f "{{if .GoFiles}}{{.ImportPath}}{{end}}" ./... | grep -vE "/(adapters|examples|test/(mutants|release)|internal/(redistest|peek|kit|snippets))" | paste -sd, -)

cover: redis
	RELOCK_ALL=1 $(GO) test -timeout 10m -coverpkg=$(COVERED) -coverprofile=cover.out ./...
	$(GO) tool cover -func=cover.out | tail -1
