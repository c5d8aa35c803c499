// SPDX-License-Identifier: Apache-2.0

//go:build linux

/*
Command chaos runs many clients of pawl in separate processes, on a real store with real
servers, and makes everything fail that can fail. The clients write diaries. From the
diaries, chaos checks whether two clients ever held a lock at the same time.

	go run ./lab/chaos --store cluster --for 2m --seed 7

It shares no code with the stores that it tests. Command worker uses the public API and writes
down the answers. Package check knows what a lock is. Package stage causes faults in servers and in the links to them,
which package servers of drivertest starts. None of them imports a test of pawl, and none knows how a store grants a lease.

All instants are read from one clock, the machine's time since boot, so the check is exact: if
two clients believed at the same instant in leases that exclude each other, that is a violation. A
client reads the clock and then calls Err. If Err returns nil, the client believed in its lease
at that instant. It also believed in its lease between two such instants.

Faults that break an assumption in docs/guarantees happen only with --beyond. With
--mutant the clients are built without one protection, and the run has to find a violation.
*/
package main
