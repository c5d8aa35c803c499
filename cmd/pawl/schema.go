// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/pawl-go/pawl/cmd/pawl/internal/report"

// schema is the number of the form of everything that the commands print as JSON.
const schema = report.Schema

type lsJSON struct {
	Schema int           `json:"schema"`
	Store  string        `json:"store"`
	Locks  []report.Lock `json:"locks"`
	State  *report.State `json:"state,omitempty"`
}

type showJSON struct {
	Schema int           `json:"schema"`
	Store  string        `json:"store"`
	Lock   report.Lock   `json:"lock"`
	State  *report.State `json:"state,omitempty"`
}
