# make test   everything that has to pass; installs missing servers through apt
# make lint   formatting, vet for every platform, staticcheck
# make bench  benchmarks, which measure and never fail
# make fuzz   every fuzz target for FUZZTIME
# make tidy   every go.mod and go.sum
# make interop  tests with lock libraries of npm; needs node and npm, and is not part of make test

MODULES     := . cmd/pawl redislock zklock etcdlock
PACKAGES    := ./... ./cmd/pawl/... ./redislock/... ./zklock/... ./etcdlock/...
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 1m

.PHONY: test deps lint bench fuzz tidy interop

test: deps lint
	go test -race -timeout 10m $(PACKAGES)
	# In full, which takes too long with -race: 50 x 200 rounds, 1,000 waiting processes.
	FILELOCK_WAITERS=1000 go test -count=1 -run 'TestCounter|TestManyWaiters' ./filelock

deps:
	@./internal/deps.sh

lint:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w these: $$unformatted"; exit 1; }
	go vet $(PACKAGES)
	GOOS=darwin go vet $(PACKAGES)
	GOOS=windows go vet $(PACKAGES)
	go run $(STATICCHECK) $(PACKAGES)
	./internal/tidy.sh --check $(MODULES)

bench:
	go test -run '^$$' -bench . -benchmem $(PACKAGES)

fuzz:
	./internal/fuzz.sh $(FUZZTIME) $(MODULES)

tidy:
	./internal/tidy.sh $(MODULES)

interop:
	@./internal/interop.sh
