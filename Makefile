# make quick  what a change is likely to break, in three minutes
# make test   everything that has to pass; installs missing servers through apt
# make lint   formatting, vet for every platform, staticcheck, the worst English
# make bench  pawl beside other libraries and what the stores cost alone, in ten
#             minutes; BENCH has its flags: go run ./bench -help
# make chaos  clients and servers as processes, and everything fails, five minutes for
#             each kind of store; CHAOS has its flags: go run ./chaos -help
# make microbench  benchmarks of all packages, which measure and never fail
# make spec   the proof of Redlock and its model, every state of it, and variants that must fail
# make soak   what takes hours: SCHEDULES schedules of the simulator (1,000,000 unless set),
#             1,000 waiting processes, 100,000 names, other libraries beside pawl, the whole model, chaos
# make fuzz   every fuzz target for FUZZTIME
# make release-check  publish all modules to a folder, and use them from outside; a minute
# make release VERSION=v0.1.0  make test, then commit and tag; see docs/releasing.md
# make snapshot  archives, deb, rpm, checksums and SBOMs of this tree, in .work/dist; as root
#             the deb is installed into an empty root and run there
# make publish VERSION=v0.1.0  the same of a tag, to GitHub; for the workflow of releases
# make tidy   every go.mod and go.sum
# make browser  the page of pawl serve in chromium; PICTURES=FOLDER keeps what it looks
#             like. It is no part of make test, as a browser is large
# make interop  tests with lock libraries of npm and with Curator; needs node, npm and javac,
#             and is not part of make test

SHIPPED     := . metrics/otelpawl metrics/prompawl redislock redislock/goredis zklock etcdlock pglock sim cmd/pawl
# A module stands behind those that it requires: one make tidy is enough.
MODULES     := . driver/drivertest/linear $(filter-out .,$(SHIPPED)) adapt/adapttest bench chaos fence/fencetest
PACKAGES    := $(MODULES:%=./%/...)
PORTABLE    := $(SHIPPED:%=./%/...)
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.15.1
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Whose tests mostly run in fake time.
CORE        := . ./driver/... ./memlock ./fence ./adapt/... ./metrics/... ./metrics/otelpawl ./metrics/prompawl ./sim ./internal/arch ./internal/docs ./internal/guarantees ./internal/line ./internal/schedule ./internal/trust
STORES      := ./filelock ./redislock ./redislock/redlock ./zklock ./etcdlock ./pglock
ENSEMBLES   := ./zklock/... ./etcdlock/...
# Of these two suites run at a time, in this order: redislock and redlock have light ones beside them.
FIRST       := ./redislock ./chaos ./driver/drivertest/linear ./filelock ./bench/migrate ./redislock/redlock
LAST        := ./cmd/pawl ./pglock
SINCE       ?= HEAD
BUBBLES     := '^TestConformanceInMemory$$'
TIMED       := ./internal/timed.sh
AGAIN       := go run ./internal/again
FUZZTIME    ?= 1m
SCHEDULES   ?= 1000000

# Where a clone lies is no part of what is built: all clones share the build cache. What
# go test vets, make lint has vetted. The compiler and staticcheck spend a quarter of their
# time on garbage unless they may leave more of it; with little memory left they do not.
export GOFLAGS    := $(filter-out -trimpath -vet=off,$(shell go env GOFLAGS)) -trimpath -vet=off
export GOGC       ?= 400
export GOMEMLIMIT ?= 3GiB
# The files of a new PostgreSQL, from which each server of a test has a copy.
export PAWL_POSTGRES_FILES := $(CURDIR)/.work

.PHONY: quick test suites meanwhile model schedules deps lint checks foreign style bench chaos microbench spec soak fuzz tidy browser interop release release-check snapshot publish

# No -race, no faults, and of the mutants those of files that differ from SINCE.
quick: deps style
	go test -short $(CORE)
	go test -short -run 'TestConformance3?$$' $(STORES) # redlock's is of three nodes
	go test -timeout 10m ./internal/mutants -since $(SINCE)

test: deps
	@./internal/timed.sh --begin
	@$(TIMED) lint $(MAKE) checks
	@$(MAKE) --no-print-directory -j2 suites meanwhile
	# It runs tests of its own, which mostly wait, and gains nothing from -race.
	$(TIMED) mutants go test -timeout 40m ./internal/mutants -part rest -passed .work/passed
	@./internal/timed.sh --end

# What runs in fake time first: with -race each of these waits a second when it ends.
# Then the suites with servers, which mostly wait. Those of ZooKeeper and etcd run alone: ensembles of
# three need both processors, or requests time out. Of the others two run at a time. What is late
# there is run again, alone; package again says what is not.
suites:
	$(TIMED) "fake time" go test -race -p 2 $$(go list $(CORE) | grep -v '/driver/drivertest$$')
	$(TIMED) "zookeeper, etcd" $(AGAIN) -race -p 1 -timeout 20m -- $(ENSEMBLES)
	others=$$(go list $(PACKAGES) | grep -vxF "$$(go list $(CORE) $(FIRST) $(LAST) $(ENSEMBLES) ./internal/mutants)") && \
	$(TIMED) suites $(AGAIN) -race -p 2 -timeout 15m -skip $(BUBBLES) -- $(FIRST) $$others $(LAST)

# What only computes has what the suites leave of the processors: SCHED_IDLE takes nothing
# from their servers, which would be late. The first two have hundreds of bubbles of fake
# time, which crash Go 1.26.8's race runtime now and then. The stores run what they have
# with -race.
meanwhile:
	chrt --idle 0 $(TIMED) drivertest go test -timeout 30m ./driver/drivertest
	chrt --idle 0 $(TIMED) "redlock in memory" go test -timeout 30m -run $(BUBBLES) ./redislock/redlock
	chrt --idle 0 $(TIMED) "other systems" $(MAKE) --no-print-directory foreign
	chrt --idle 0 $(MAKE) --no-print-directory model
	chrt --idle 0 $(MAKE) --no-print-directory schedules
	chrt --idle 0 $(TIMED) release-check $(MAKE) --no-print-directory release-check
	chrt --idle 0 $(TIMED) "mutants that compute" go test -timeout 40m -parallel 3 ./internal/mutants -part computes

model:
	$(TIMED) proof go run ./spec/proof -quick
	$(TIMED) model ./spec/run.sh --quick

# Of the simulator's schedules -race runs a few hundred. In a bubble one goroutine runs at a time
# mostly: a second processor costs a fifth more, and makes no other history (TestSameSeedSameHistory).
schedules: export GOMAXPROCS := 1
schedules:
	SIM_SCHEDULES=20000 $(TIMED) simulator go test -count=1 -timeout 30m -run TestNothingForbiddenHappens ./sim
	SIM_SCHEDULES=3000 $(TIMED) formulas go test -count=1 -timeout 30m -run TestStepsAreThoseOfTheFormulas ./sim

deps:
	@./internal/deps.sh

style:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w these: $$unformatted"; exit 1; }
	go vet $(PACKAGES)
	go run $(STATICCHECK) $(PACKAGES)

lint: checks foreign

checks: style
	go run $(ACTIONLINT)
	./internal/english.sh
	go vet -tags noetcd,nopostgres ./cmd/pawl
	go vet -tags interop ./redislock ./bench/migrate
	go vet -tags pawltrace ./redislock/redlock ./chaos/worker
	./internal/tidy.sh --check $(MODULES)

# It compiles everything twice more.
foreign:
	GOOS=darwin go vet $(PORTABLE)
	GOOS=windows go vet $(PORTABLE)

bench: deps
	go run ./bench $(BENCH)

chaos: deps
	go run ./chaos --store all --for 5m $(CHAOS)

microbench:
	go test -run '^$$' -bench . -benchmem $(PACKAGES)

spec: deps
	go run ./spec/proof
	./spec/run.sh

soak: deps
	SIM_SCHEDULES=$(SCHEDULES) go test -count=1 -timeout 0 -v -run 'TestNothingForbiddenHappens|TestStepsAreThoseOfTheFormulas|TestSameSeedSameHistory' ./sim
	REDLOCK_STEPS=1 go test -count=1 -run TestStepsOfServers ./redislock/redlock
	SERVE_SOAK=1h go test -count=1 -v -timeout 2h -run TestServeUnwatched ./cmd/pawl
	MIGRATE_COUNT=10000 go test -count=1 -run 'TestCountTogether$$' ./bench/migrate
	LEAK_NAMES=100000 go test -count=1 -run TestNamesDoNotLeak ./redislock
	FILELOCK_WAITERS=1000 go test -count=1 -run 'TestCounter|TestManyWaiters' ./filelock
	./spec/run.sh --full
	$(MAKE) chaos

fuzz:
	./internal/fuzz.sh $(FUZZTIME) $(MODULES)

release-check:
	go run ./internal/release check

release:
	go run ./internal/release make $(VERSION)

snapshot:
	go run $(GORELEASER) check
	go run $(GORELEASER) release --snapshot --clean --parallelism 2 --skip docker
	@test "$$(id -u)" != 0 || ./cmd/pawl/packaging/try-deb.sh .work/dist/*_amd64.deb

publish:
	@mkdir -p .work
	go run ./internal/release notes $(VERSION) >.work/notes.md
	GORELEASER_CURRENT_TAG=$(VERSION) go run $(GORELEASER) release --clean --release-notes .work/notes.md

tidy:
	./internal/tidy.sh $(MODULES)

browser:
	@./internal/browser.sh $(PICTURES)

interop:
	@./internal/interop.sh
