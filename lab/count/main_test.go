// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
)

func TestCodeLines(t *testing.T) {
	const text = "// Package a is one.\npackage a\n\n/* two\nlines */\nvar b = `x\ny`\n\nfunc c() {\n\tif b == \"\" && true { // why\n\t}\n}\n"
	if n := codeLines([]byte(text)); n != 7 {
		t.Errorf("%d lines; want 7", n)
	}
	if n := commentedLines([]byte("-- a\n\nSELECT 1 -- b\n  -- c\n")); n != 1 {
		t.Errorf("%d lines of SQL; want 1", n)
	}
}

func TestAdd(t *testing.T) {
	c := &counts{store: map[string]int{}}
	for file, text := range map[string]string{
		"redislock/redlock/a.go":   "package a\n",
		"redislock/b.go":           "package b\n",
		"redislock/b_test.go":      "package b\n",
		"internal/trust/c.go":      "package c\n",
		"internal/mutants/d.go":    "package d\n",
		"driver/drivertest/e.go":   "package e\n",
		"cmd/pawl/internal/x/f.go": "package f\n\nfunc f(a int) {\n\tfor {\n\t\tswitch {\n\t\tcase a == 1 || a == 2, a == 3:\n\t\tdefault:\n\t\t}\n\t}\n}\n",
		"docs/glossary.md":         "three words here",
		"CHANGELOG.md":             "not these",
	} {
		if err := c.add(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if c.product != 12 || c.tests != 3 || c.store["redislock"] != 1 || c.store["redislock/redlock"] != 1 || c.words != 3 {
		t.Errorf("%+v", c)
	}
}

// TestCount: the tree is counted from its root, and each store has code.
func TestCount(t *testing.T) {
	c, err := count("../..")
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(stores, func(s string) bool { return c.store[s] == 0 }) || c.lua == 0 || c.sql == 0 || c.words == 0 {
		t.Errorf("%+v", c)
	}
}
