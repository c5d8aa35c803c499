# make quick  what a change is likely to break, in three minutes
# make test   everything that has to pass; installs missing servers through apt
# make lint   formatting, vet for every platform, staticcheck, the worst English
# make bench  pawl beside other libraries and what the stores cost alone, in ten
#             minutes; BENCH has its flags: go run ./bench -help
# make chaos  clients and servers as processes, and everything fails, five minutes for
#             each kind of store; CHAOS has its flags: go run ./chaos -help
# make microbench  benchmarks of all packages, which measure and never fail
# make spec   the model of Redlock, every state of it, and variants that must fail
# make soak   what takes hours: SCHEDULES schedules of the simulator (1,000,000 unless set),
#             1,000 waiting processes, the whole model, chaos
# make fuzz   every fuzz target for FUZZTIME
# make release-check  publish all modules to a folder, and use them from outside; a minute
# make release VERSION=v0.1.0  make test, then commit and tag; see docs/releasing.md
# make snapshot  archives, deb, rpm, checksums and SBOMs of this tree, in .work/dist; as root
#             the deb is installed into an empty root and run there
# make publish VERSION=v0.1.0  the same of a tag, to GitHub; for the workflow of releases
# make tidy   every go.mod and go.sum
# make interop  tests with lock libraries of npm; needs node and npm, and is not part of make test

SHIPPED     := . redislock redislock/goredis zklock etcdlock sim cmd/pawl
# A module stands behind those that it requires: one make tidy is enough.
MODULES     := . driver/drivertest/linear $(filter-out .,$(SHIPPED)) adapt/adapttest bench chaos fence/fencetest
PACKAGES    := $(MODULES:%=./%/...)
PORTABLE    := $(SHIPPED:%=./%/...)
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.15.1
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Whose tests mostly run in fake time.
CORE        := . ./driver/... ./memlock ./fence ./adapt/... ./sim ./internal/arch ./internal/docs ./internal/guarantees
STORES      := ./filelock ./redislock ./redislock/redlock ./zklock ./etcdlock
SINCE       ?= HEAD
FUZZTIME    ?= 1m
SCHEDULES   ?= 1000000

.PHONY: quick test suites model deps lint style bench chaos microbench spec soak fuzz tidy interop release release-check snapshot publish

# No -race, no faults, and of the mutants those of files that differ from SINCE.
quick: deps style
	go test -short $(CORE)
	go test -short -run 'TestConformance$$' $(STORES)
	go test -timeout 10m -parallel 4 ./internal/mutants -since $(SINCE)

test: deps lint release-check
	# The model and the simulator only compute: they get what the suites leave of the processors.
	@$(MAKE) --no-print-directory -j2 suites model
	# Its hundreds of bubbles of fake time at once crash Go 1.26.8's race runtime now and
	# then, in one run of five. The stores run what it has with -race.
	go test ./driver/drivertest
	# It runs tests of its own, which mostly wait, and gains nothing from -race.
	go test -timeout 40m -parallel 4 ./internal/mutants

# One suite after the other: two that start servers keep each other from time.
suites:
	go test -race -p 1 -timeout 20m $$(go list $(PACKAGES) | grep -v -e /internal/mutants -e '/driver/drivertest$$')

# Of the simulator's schedules -race runs a few hundred.
model:
	nice -n 19 ./spec/run.sh --quick
	SIM_SCHEDULES=20000 nice -n 19 go test -count=1 -run TestNothingForbiddenHappens ./sim

deps:
	@./internal/deps.sh

style:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w these: $$unformatted"; exit 1; }
	go vet $(PACKAGES)
	go run $(STATICCHECK) $(PACKAGES)

lint: style
	go run $(ACTIONLINT)
	./internal/english.sh
	go vet -tags noetcd ./cmd/pawl
	GOOS=darwin go vet $(PORTABLE)
	GOOS=windows go vet $(PORTABLE)
	./internal/tidy.sh --check $(MODULES)

bench: deps
	go run ./bench $(BENCH)

chaos: deps
	go run ./chaos --store all --for 5m $(CHAOS)

microbench:
	go test -run '^$$' -bench . -benchmem $(PACKAGES)

spec: deps
	./spec/run.sh

soak: deps
	SIM_SCHEDULES=$(SCHEDULES) go test -count=1 -timeout 0 -v -run 'TestNothingForbiddenHappens|TestSameSeedSameHistory' ./sim
	FILELOCK_WAITERS=1000 go test -count=1 -run 'TestCounter|TestManyWaiters' ./filelock
	./spec/run.sh
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

interop:
	@./internal/interop.sh
