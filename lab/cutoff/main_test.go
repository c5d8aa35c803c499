// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"io"
	"testing"
)

// The holder's context ends before the next holder starts.
func TestContextEndsBeforeTheNextHolder(t *testing.T) {
	s, err := run(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.ended == 0 || s.granted <= s.ended {
		t.Errorf("the context ended after %v, and the next holder started after %v", s.ended, s.granted)
	}
}
