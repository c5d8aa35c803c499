// SPDX-License-Identifier: Apache-2.0

// Package nodetest has what a redlock.Node answers, for tests of nodes that are
// no servers.
package nodetest

import _ "embed"

// Answers are generated requests for the name "deploy" and what a node answers, one JSON
// object a line. The tests of package redlock write it, and compare the scripts in a
// server with the nodes that have given these answers. How to read it: TestAnswers
// there, TestNodesAnswerAsServersDo in package sim.
//
//go:embed answers.jsonl
var Answers []byte
