// SPDX-License-Identifier: Apache-2.0

// Package sim runs package redlock, and package pawl above it, on simulated
// masters, and checks that no Rule is broken.
//
// The production code counts votes, time and quorums. This package simulates the
// world around it: masters that follow the text of nodewire.Node by their own
// clocks, links that delay, lose, repeat and cut off, crashes that forget, clients
// that stop for a while, and a resource that checks tokens.
//
// A Plan says all that happens from outside. Draw makes a plan from a seed; the
// plans of scenarios are written by hand. A plan runs in the fake time of
// testing/synctest, so a run takes no time.
//
// A plan has one history on every machine, because nothing in it depends on which of
// two goroutines comes first. No two things happen in the same nanosecond. Every
// delay is a function of the seed and of what it delays, and does not depend on
// delays that were drawn before.
package sim
