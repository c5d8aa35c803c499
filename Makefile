# make quick  what a change is likely to break, in three minutes
# make test   all tests of the library, the stores and the command; installs missing servers through apt
# make check  the rest that has to pass: linters, all platforms, -race in fake time, chaos, simulator, histories, proof, release
# make race-servers  the suites of the stores with -race
# make mutants  take each protection out of the source, one at a time: a test has to fail
# make lint   formatting, vet for every platform, staticcheck, tidy modules
# make bench  pawl beside other libraries and what the stores cost alone, in ten
#             minutes; BENCH has its flags: go run ./lab/bench -help
# make chaos  clients and servers as processes, and everything fails, five minutes for
#             each kind of store; CHAOS has its flags: go run ./lab/chaos -help
# make microbench  benchmarks of all packages, which measure and never fail
# make soak   hours: SCHEDULES schedules of the simulator (1,000,000 unless set),
#             1,000 waiting processes, 100,000 names, other libraries beside pawl, chaos
# make fuzz   every fuzz target for FUZZTIME
# make release-check  publish all modules to a folder, and use them from outside
# make release VERSION=v0.1.0  make test and make check, then commit and tag; see docs/releasing.md
# make snapshot  archives, deb, rpm, checksums and SBOMs of this tree, in .work/dist; as root
#             the deb is installed into an empty root and run there
# make publish VERSION=v0.1.0  the same of a tag, to GitHub; for the workflow of releases
# make tidy   every go.mod and go.sum
# make browser  the page of pawl serve in chromium; PICTURES=FOLDER keeps screenshots
# make interop  tests with lock libraries of npm and with Curator; needs node, npm and javac

SHIPPED     := . metrics/otelpawl metrics/prompawl redislock redislock/goredis zklock etcdlock pglock cmd/pawl
# A module stands behind those that it requires: one make tidy is enough.
MODULES     := . $(filter-out .,$(SHIPPED)) lab
PACKAGES    := $(MODULES:%=./%/...)
PORTABLE    := $(SHIPPED:%=./%/...)
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.15.1
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Most of these tests run in fake time.
CORE        := . ./internal/apitest ./driver/... ./memlock ./fence ./adapt/... ./metrics/... ./metrics/otelpawl ./metrics/prompawl ./internal/line ./internal/participant/... ./internal/schedule ./internal/trust
# These start servers or processes.
ENSEMBLES   := ./zklock/... ./etcdlock/...
SERVERS     := ./filelock ./redislock/... ./pglock/... ./cmd/pawl/...
# These test the tree and the tools that test the product.
TREE        := ./internal/arch ./internal/docs ./internal/guarantees
LAB         := ./lab/... ./internal/release
STORES      := ./filelock ./redislock ./redislock/redlock ./zklock ./etcdlock ./pglock
SINCE       ?= HEAD
# Not with -race, which finds what goroutines of this process do to each other. A few hundred bubbles of
# fake time crash the race detector of Go 1.26.8 now and then; the others compare scripts with a model,
# show that a test without its protection fails, or repeat the suite on another deployment.
NOT_RACED   := '^(TestWireInMemory|Test(Scripts|Queues)DoWhatNodeSays|TestDeployments)$$'
FUZZTIME    ?= 1m
SCHEDULES   ?= 1000000

# A clone's path is not part of what is built, so that all clones share the build cache. Make lint vets.
# The compilers collect garbage less often, unless memory is short.
export GOFLAGS    := $(filter-out -trimpath -vet=off,$(shell go env GOFLAGS)) -trimpath -vet=off
export GOGC       ?= 400
export GOMEMLIMIT ?= 3GiB
# Each PostgreSQL of a test starts from a copy of these files.
export PAWL_POSTGRES_FILES := $(CURDIR)/.work

.PHONY: quick test check deps style lint platforms race race-servers lab schedules proof mutants bench chaos microbench soak fuzz tidy browser interop release release-check snapshot publish

# Of the mutants it runs those in files that differ from SINCE.
quick: deps style
	go test -short $(CORE) $(TREE)
	go test -short -run 'TestWire3?$$' $(STORES)
	go test -timeout 10m ./internal/mutants -since $(SINCE)

# Everything is compiled before the first server starts: a compiler beside an ensemble makes it late.
test: deps
	go test -c -o /dev/null $(CORE) $(SERVERS) $(ENSEMBLES)
	go test $(CORE)
	go test -p 1 -timeout 20m $(ENSEMBLES)
	go test -p 2 -timeout 20m $(SERVERS)

check: lint race lab proof release-check

race:
	HISTORIES=2000 go test -race $$(go list $(CORE) | grep -v '/driver/drivertest$$')

# Every request takes several times as long.
race-servers: deps
	go test -race -c -o /dev/null $(SERVERS) $(ENSEMBLES)
	go test -race -p 1 -timeout 30m $(ENSEMBLES)
	go test -race -p 2 -timeout 30m -skip $(NOT_RACED) $(SERVERS)

lab: deps schedules
	go test -timeout 30m -p 1 $(LAB) $(TREE)

# In a bubble of fake time mostly one goroutine runs at a time. TestSameSeedSameHistory shows that the
# number of processors changes no history.
schedules:
	GOMAXPROCS=1 HISTORIES=100000 go test -count=1 -timeout 30m -run TestHistories ./internal/participant
	GOMAXPROCS=1 SIM_SCHEDULES=20000 go test -count=1 -timeout 30m -run TestNothingForbiddenHappens ./lab/sim

# The simulator's mutants compute, and would make the others late. Without a package name go test prints what
# happens while it happens.
mutants: deps
	cd internal/mutants && go test -timeout 15m -parallel 3 -run TestSimulator
	cd internal/mutants && go test -timeout 40m -skip TestSimulator

proof: deps
	go run ./lab/proof -quick

# The files of PostgreSQL are of the version that is installed now.
deps:
	@./internal/deps.sh
	@rm -rf .work/postgres-*

style:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w these: $$unformatted"; exit 1; }
	go vet $(PACKAGES)
	go run $(STATICCHECK) $(PACKAGES)

lint: style platforms
	go run $(ACTIONLINT)
	go vet -tags noetcd,nopostgres ./cmd/pawl
	go vet -tags interop ./redislock ./lab/bench/migrate
	./internal/tidy.sh --check $(MODULES)

platforms:
	GOOS=darwin go vet $(PORTABLE)
	GOOS=windows go vet $(PORTABLE)

bench: deps
	go run ./lab/bench $(BENCH)

chaos: deps
	go run ./lab/chaos --store all --for 5m $(CHAOS)

microbench:
	go test -run '^$$' -bench . -benchmem $(PACKAGES)

soak: deps
	SIM_SCHEDULES=$(SCHEDULES) go test -count=1 -timeout 0 -v -run 'TestNothingForbiddenHappens|TestSameSeedSameHistory' ./lab/sim
	MIGRATE_COUNT=10000 go test -count=1 -run 'TestCountTogether$$' ./lab/bench/migrate
	LEAK_NAMES=100000 go test -count=1 -run TestNamesDoNotLeak ./redislock
	FILELOCK_WAITERS=1000 go test -count=1 -run 'TestCounter|TestManyWaiters' ./filelock
	go run ./lab/proof
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
