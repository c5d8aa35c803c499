# make quick  the tests that a change is likely to break, in three minutes
# make test   all tests of the library, the stores and the command; installs missing servers through apt
# make check  the other checks: linters, all platforms, -race in fake time, chaos, simulator, histories, proof, release
# make race-servers  the suites of the stores with -race
# make mutants  remove each protection from the source, one at a time: a test has to fail
# make lint   formatting, vet for every platform, staticcheck, tidy modules
# make bench  compare pawl with other libraries, and with the least cost of each store, in
#             ten minutes; BENCH has its flags: go run ./lab/bench -help
# make chaos  run clients and servers as processes, and make them fail, five minutes for
#             each kind of store; CHAOS has its flags: go run ./lab/chaos -help
# make microbench  benchmarks of all packages, which measure and never fail
# make soak   hours: SCHEDULES schedules of the simulator (1,000,000 unless set),
#             1,000 waiting processes, 100,000 names, other libraries beside pawl, chaos
# make fuzz   every fuzz target for FUZZTIME
# make release-check  publish all modules to a folder, and use them from outside
# make release VERSION=v0.1.0  make test and make check, then commit and tag; see docs/releasing.md
# make snapshot  archives, deb, rpm, checksums and SBOMs of this tree, in .work/dist; as root
#             the deb is installed into an empty root and run there
# make publish VERSION=v0.1.0  the same for a tag, published on GitHub; the release workflow uses it
# make tidy   every go.mod and go.sum
# make browser  the page of pawl serve in chromium; PICTURES=FOLDER keeps screenshots
# make interop  tests with lock libraries from npm and with Curator; needs node, npm and javac

SHIPPED     := . metrics/otelpawl metrics/prompawl redislock redislock/goredis zklock etcdlock pglock cmd/pawl
# Each module comes after the modules that it requires, so that one make tidy is enough.
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
# Tests that run without -race. TestWireInMemory has a few hundred bubbles of fake time, which crash the race
# detector of Go 1.26.8 now and then. The others would find no races: they compare scripts with a model,
# show that a test without its protection fails, or repeat the suite on another deployment.
NOT_RACED   := '^(TestWireInMemory|Test(Scripts|Queues)DoWhatNodeSays|TestDeployments)$$'
FUZZTIME    ?= 1m
SCHEDULES   ?= 1000000

# With -trimpath all clones share the build cache. go test does not vet, because make lint does. GOGC makes
# the compilers collect garbage less often, until GOMEMLIMIT is reached.
export GOFLAGS    := $(filter-out -trimpath -vet=off,$(shell go env GOFLAGS)) -trimpath -vet=off
export GOGC       ?= 400
export GOMEMLIMIT ?= 3GiB
# Each PostgreSQL server of a test starts with a copy of the files here.
export PAWL_POSTGRES_FILES := $(CURDIR)/.work

.PHONY: quick test check deps style lint platforms race race-servers lab schedules proof mutants bench chaos microbench soak fuzz tidy browser interop release release-check snapshot publish

# quick runs the mutants in files that differ from SINCE.
quick: deps style
	go test -short $(CORE) $(TREE)
	go test -short -run 'TestWire3?$$' $(STORES)
	go test -timeout 10m ./internal/mutants -since $(SINCE)

# test compiles everything before the first server starts, because a compiler would slow an ensemble down.
test: deps
	go test -c -o /dev/null $(CORE) $(SERVERS) $(ENSEMBLES)
	go test $(CORE)
	go test -p 1 -timeout 20m $(ENSEMBLES)
	go test -p 2 -timeout 20m $(SERVERS)

check: lint race lab proof release-check

race:
	HISTORIES=2000 go test -race $$(go list $(CORE) | grep -v '/driver/drivertest$$')

# With -race every request takes several times as long.
race-servers: deps
	go test -race -c -o /dev/null $(SERVERS) $(ENSEMBLES)
	go test -race -p 1 -timeout 30m $(ENSEMBLES)
	go test -race -p 2 -timeout 30m -skip $(NOT_RACED) $(SERVERS)

lab: deps schedules
	go test -timeout 30m -p 1 $(LAB) $(TREE)

# One processor is enough: in a bubble of fake time, mostly one goroutine runs at a time. TestSameSeedSameHistory
# shows that the number of processors changes no history.
schedules:
	GOMAXPROCS=1 HISTORIES=100000 go test -count=1 -timeout 30m -run TestHistories ./internal/participant
	GOMAXPROCS=1 SIM_SCHEDULES=20000 go test -count=1 -timeout 30m -run TestNothingForbiddenHappens ./lab/sim

# The simulator's mutants run first, because they keep the processors busy and would delay the others. The command
# changes the folder because go test prints its output at once only if no package is named.
mutants: deps
	cd internal/mutants && go test -timeout 15m -parallel 3 -run TestSimulator
	cd internal/mutants && go test -timeout 40m -skip TestSimulator

proof: deps
	go run ./lab/proof -quick

# deps removes the kept files of PostgreSQL, because another version may be installed now.
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
	go vet -tags interop ./redislock ./lab/bench
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
	MIGRATE_COUNT=10000 go test -count=1 -run 'TestCountTogether$$' ./lab/bench
	LEAK_NAMES=100000 go test -count=1 -run TestNamesDoNotLeak ./redislock
	FILELOCK_WAITERS=1000 go test -count=1 -run TestManyWaiters ./filelock
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
