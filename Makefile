# gputally: `make help` says what there is.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# go-nvml's headers mark old calls as deprecated, which the compiler repeats.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations

BUILD  := .build
BINARY := $(BUILD)/gputally
LIB    := $(BUILD)/lib/libchdb.so
KAFKA  := $(BUILD)/kafka/.fetched
ZOOKEEPER := $(BUILD)/zookeeper/.fetched
PYTHON := $(BUILD)/python/.installed
# Programs that tests drive; without them a laptop skips those tests, CI fails.
TEST_PACKAGES := prometheus slurmctld slurmd slurm-client munge maven default-jre-headless kcat strace chromium fonts-dejavu-core

# Arguments of `make demo`, such as ARGS=--once.
ARGS ?=
# Packages of `make test` and `make bench`.
PKG ?= ./...

# A statement as a format: what no linter knows of store.DB's methods.
SQL_IN_FORMAT := (Sprintf|Fprintf|Appendf)\(.*["`](SELECT|INSERT INTO|ALTER|CREATE|DROP|DELETE|OPTIMIZE|SYSTEM) 

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: $(LIB) need-go need-cc ## .build/gputally and, on the first run, ClickHouse's library
	@start=$$SECONDS; CGO_ENABLED=1 go build -trimpath -buildmode=pie -buildvcs=auto -o $(BINARY) ./cmd/gputally; \
	echo "built $(BINARY) in $$((SECONDS - start)) s"

$(LIB): internal/store/engine/lib/fetch.sh
	@$(MAKE) --no-print-directory need-npm
	@echo "ClickHouse's library: downloading about 150 MB, unless it is there already …"
	@start=$$SECONDS; sh internal/store/engine/lib/fetch.sh $(BUILD)/lib; touch $@; \
	echo "$@ is checked and in place ($$((SECONDS - start)) s)"

.PHONY: demo
demo: build ## a simulated month with invoices and checks; then live (ARGS=--once stops there)
	@$(BINARY) demo --data $(BUILD)/demo $(ARGS)

# Tests keep databases, topics and spools in memory where there is enough of it.
test test-all torture once month hostile seeded mutants bench: export TMPDIR := $(or $(TMPDIR),$(shell .ci/tmp))

.PHONY: test
test: $(LIB) need-go need-cc ## tests for every change, in six minutes on two cores (PKG=./... by default)
	go test -short -timeout 15m $(PKG)

# Packages without goroutines: the race detector would find nothing in them, and
# without it they try ten times as many random cases.
SEQUENTIAL := ./analyzer/... ./billing/export ./billing/export/focus/focuscheck ./billing/prices ./billing/projection \
	./billing/rating ./billing/statement ./collector/source/field ./collector/source/prometheus ./collector/source/sim ./dashboards/... \
	./ingest/explain/... ./ingest/imports ./internal/check ./internal/config ./internal/hostlist \
	./internal/meter/... ./internal/tenants ./internal/usage/... ./internal/wire
# Tests of other packages that are strong by their number of cases, or bound a time,
# and not by goroutines.
COUNTING := ^Test(R6FinaliseCallsSentTwentyTimesHaveOneEffectEach|F4TheApprovedHashOrNothing|HostileRecordsAreRefusedCheaply|SevenGenerationsOfOneHour|EveryFile.*|BitFlipsInEveryByte|PowerCut|KilledAtEverySystemCall)$$
COUNTING_IN := ./billing/api ./billing/invoice ./collector/source/exporter ./collector/spool ./internal/decisions
# The tests of whole commands and processes start hundreds of them. Those of SERVING
# run services in the test's own process.
PROGRAM := ./cmd/gputally/commandtest ./cmd/gputally/e2e
SERVING := ^Test(KilledBrokerLosesNothing|SeparateServicesServeAndDrain|CollectorSpoolsWhileKafkaIsAway|StatusOfARunningStandalone|ReplayBesideAStandalone|MeteringGoesOnBesideALostLog|TroubledExporterIsNamedAndItsTimeUnobserved|DevicesAreMeteredThroughEverything|ScrapedFleetIsMeteredByRule|SilentTargetIsUnobservedForAsLong|GarbageOnTheTopicIsSetAside|ContractCasesTogether)$$

.PHONY: test-all
test-all: $(LIB) need-go need-cc ## make test with everything long, and the race detector
	go test -race -timeout 30m -skip '$(COUNTING)' $$(go list ./... | grep -vxF "$$(go list $(SEQUENTIAL) $(PROGRAM))")
	go test -race -timeout 30m -run '$(SERVING)' $(PROGRAM)
	go test -timeout 30m -skip '$(SERVING)' $(PROGRAM) $(SEQUENTIAL)
	go test -timeout 30m -run '$(COUNTING)' $(COUNTING_IN)

# The size of `make torture`; the seed of a run is printed, and taken from SEED.
ROWS  ?= 20000000
KILLS ?= 200
SEED  ?=

.PHONY: torture
torture: $(LIB) need-go need-cc ## twenty million rows while ingesters are killed (ROWS, KILLS, SEED)
	GPUTALLY_TORTURE_ROWS=$(ROWS) GPUTALLY_TORTURE_KILLS=$(KILLS) GPUTALLY_TORTURE_SEED=$(SEED) \
	go test -count 1 -timeout 6h -run '^TestTorture$$' -v ./cmd/gputally/e2e

# The size of `make property`; its seed is printed, and taken from SEED.
CASES ?= 100000

.PHONY: property
property: need-go ## a hundred thousand random months, rater against slow model (CASES, SEED)
	GPUTALLY_PROPERTY_CASES=$(CASES) GPUTALLY_PROPERTY_SEED=$(or $(SEED),random) \
	go test -count 1 -timeout 1h -run '^TestRaterEqualsTheSlowModel$$' -v ./billing/rating

.PHONY: once
once: $(LIB) need-go ## 500 finalise calls, each sent 20 times, to two processes; one is killed
	go test -count 1 -timeout 20m -run '^TestR6' -v ./billing/api

# The size of `make month`.
GPUS    ?= 1000
TENANTS ?= 50

.PHONY: month
month: $(LIB) need-go need-cc ## a month of a thousand GPUs × fifty tenants, billed (GPUS, TENANTS)
	GPUTALLY_MONTH_GPUS=$(GPUS) GPUTALLY_MONTH_TENANTS=$(TENANTS) \
	go test -count 1 -timeout 1h -run '^TestMonthOfAThousandGPUs$$' -v ./billing

# The time of each fuzzer of `make fuzz`, of which two run at a time.
FUZZTIME ?= 3s
FUZZ     ?=

.PHONY: fuzz
fuzz: need-go need-cc ## every fuzzer of the tree (FUZZTIME each, FUZZ=pattern)
	FUZZTIME='$(FUZZTIME)' FUZZ='$(FUZZ)' .ci/fuzz

# How long `make hostile` sends; its seed is printed, and taken from SEED.
HOSTILE ?= 2m

.PHONY: hostile
hostile: $(LIB) need-go need-cc ## hostile messages against a running standalone (HOSTILE, SEED)
	GPUTALLY_HOSTILE=$(HOSTILE) GPUTALLY_HOSTILE_SEED=$(SEED) \
	go test -count 1 -timeout 3h -run '^TestHostileMessages' -v ./cmd/gputally/e2e

# The commit that `make hotpath` compares with.
BASE ?=

.PHONY: hotpath
hotpath: $(LIB) need-go need-cc ## CPU of a raw row before and after (BASE=commit)
	.ci/hotpath $(BASE)

.PHONY: seeded
seeded: $(LIB) need-go need-cc ## tests the tests: bugs put in one at a time, each of which a named test must catch
	go test -count 1 -timeout 30m -tags seeded -v ./internal/seeded

# The size of `make mutants`, its seed and the packages that it changes; MUTANT_ONLY is
# a regular expression, to try again what is at a place: 'root.go:10[0-9]:'.
MUTANTS      ?= 1000
MUTANT_SEED  ?= 1
MUTANT_ONLY  ?=
MUTANT_PKGS  ?= internal/meter,billing/rating,ingest/ledger,internal/decisions,collector/spool,internal/httpd/guard

.PHONY: mutants
mutants: $(LIB) need-go need-cc ## tests the tests: random changes, of which 90 % must fail the package's own tests (MUTANTS, MUTANT_SEED, MUTANT_PKGS, MUTANT_ONLY)
	go test -count 1 -timeout 12h -tags mutants -v ./internal/mutants -mutants $(MUTANTS) -mutant-seed $(MUTANT_SEED) -mutant-packages '$(MUTANT_PKGS)' -mutant-only '$(MUTANT_ONLY)'

.PHONY: bench
bench: $(LIB) need-go need-cc ## all benchmarks, with allocations
	go test -run '^$$' -bench . -benchmem $(PKG)

.PHONY: lint
lint: need-go need-cc ## the design's rules: imports between components, time, SQL, sizes
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed, run make fmt:"; echo "$$unformatted"; exit 1; fi
	@if git grep -nE '$(SQL_IN_FORMAT)' -- '*.go'; then echo "SQL lives in constants or .sql files, with parameters"; exit 1; fi
	go tool golangci-lint run ./...

.PHONY: fmt
fmt: need-go ## format the Go code
	go tool golangci-lint fmt ./...

.PHONY: generate
generate: need-go ## generated code and goldens (needs protoc)
	@command -v protoc >/dev/null || { echo "protoc is missing: apt-get install protobuf-compiler"; exit 1; }
	@mkdir -p $(BUILD)/bin && go build -o $(BUILD)/bin/protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go
	PATH="$(CURDIR)/$(BUILD)/bin:$$PATH" go generate ./...

.PHONY: test-deps
test-deps: $(LIB) need-go ## what tests and linters use (apt-get, as root), and all modules
	go mod download
	@missing=; for package in $(TEST_PACKAGES); do dpkg -s $$package >/dev/null 2>&1 || missing+=" $$package"; done; \
	if [ -n "$$missing" ]; then \
		command -v apt-get >/dev/null || { echo "install by hand:$$missing"; exit 1; }; \
		sudo=; [ $$(id -u) = 0 ] || sudo=sudo; \
		$$sudo apt-get update -q && $$sudo apt-get install -y -q --no-install-recommends $$missing; \
	fi
	@if command -v mvn >/dev/null && command -v java >/dev/null; then $(MAKE) --no-print-directory $(KAFKA) $(ZOOKEEPER); else echo "no mvn or no java: no tests with Apache Kafka and ZooKeeper"; fi
	@if sh .ci/python/find.sh >/dev/null; then $(MAKE) --no-print-directory $(PYTHON); else echo "no Python 3.12 (PYTHON312 names one): no tests with the FOCUS validator and the API fuzzer"; fi

$(KAFKA): .ci/kafka/pom.xml
$(ZOOKEEPER): .ci/zookeeper/pom.xml
$(KAFKA) $(ZOOKEEPER):
	@rm -rf $(@D)
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

$(PYTHON): .ci/python/requirements.txt .ci/python/find.sh
	@rm -rf $(@D)
	@"$$(sh .ci/python/find.sh)" -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

.PHONY: clean
clean: ## remove what was built, and the demo's data
	rm -rf $(BUILD)

.PHONY: need-go need-npm need-cc
need-go:
	@command -v go >/dev/null || { echo "go is missing: install Go 1.26 or newer"; exit 1; }
need-npm:
	@command -v npm >/dev/null || { echo "npm is missing: install Node.js; ClickHouse's library is an npm package"; exit 1; }
need-cc:
	@command -v $$(go env CC) >/dev/null || { echo "a C compiler is missing: DCGM, NVML and the race detector need one (apt-get install gcc libc6-dev)"; exit 1; }
