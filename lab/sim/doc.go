// SPDX-License-Identifier: Apache-2.0

// Package sim runs package redlock, and package pawl above it, on simulated
// masters, and looks for what must never happen.
//
// What counts votes, time and quorums is the code that runs in production. What
// stands in for the world is here: masters that follow the text of nodewire.Node by
// clocks of their own, links that delay, lose, repeat and cut off, crashes that
// forget, clients that stop for a while, and a resource that looks at tokens.
//
// A Plan says all that happens from outside. It is drawn from a seed, or written by
// hand for a scenario. To run it takes no time: it runs in the fake time of
// testing/synctest, in a test. The histories of the scenarios are recorded, for programs to
// show. A plan has one history, on any machine, because nothing in it
// depends on which of two goroutines comes first: no two things happen in the
// same nanosecond, and every delay is a function of the seed and of what is
// delayed, not of how many were drawn before.
package sim
