// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bufio"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io"
)

// recordings has the histories of the scenarios. TestRecorded compares them with new ones.
//
//go:embed recorded
var recordings embed.FS

// Recorded returns the view of the scenario, with its protection or without, as it was
// recorded.
func (s Scenario) Recorded(safe bool) *View {
	file, err := recordings.Open(s.recording(safe))
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err)) // the recording is part of the program
	}
	defer file.Close()
	h := &History{Plan: s.plan(safe)}
	if err := h.read(file); err != nil {
		panic(fmt.Sprintf("sim: %v", err))
	}
	return s.view(h, safe)
}

// view returns the view of the scenario's history h.
func (s Scenario) view(h *History, safe bool) *View {
	v := NewView(h)
	v.Title, v.Note = s.Title, "Switched off: the protection that "+s.Protection
	if safe {
		v.Note = "The protection: " + s.Protection
	}
	return v
}

func (s Scenario) plan(safe bool) Plan {
	if safe {
		return s.Safe
	}
	return s.Unsafe
}

func (s Scenario) recording(safe bool) string {
	return "recorded/" + s.Name + map[bool]string{true: "-safe.jsonl.gz", false: "-unsafe.jsonl.gz"}[safe]
}

// line is one line of a recording. A recording has one line for each violation, and then
// one for each event. It is compressed, because programs contain it.
type line struct {
	Violation *Violation `json:",omitempty"`
	Event     *Event     `json:",omitempty"`
}

func (h *History) write(w io.Writer) error {
	small, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := json.NewEncoder(small)
	for i := range h.Violations {
		if err := out.Encode(line{Violation: &h.Violations[i]}); err != nil {
			return err
		}
	}
	for i := range h.Events {
		if err := out.Encode(line{Event: &h.Events[i]}); err != nil {
			return err
		}
	}
	return small.Close()
}

func (h *History) read(r io.Reader) error {
	plain, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	for lines := json.NewDecoder(bufio.NewReader(plain)); lines.More(); {
		var l line
		if err := lines.Decode(&l); err != nil {
			return err
		}
		if l.Violation != nil {
			h.Violations = append(h.Violations, *l.Violation)
		}
		if l.Event != nil {
			h.Events = append(h.Events, *l.Event)
			if l.Event.Kind == Granted {
				h.Grants++
			}
		}
	}
	return nil
}
