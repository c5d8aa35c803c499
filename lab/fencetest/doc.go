// SPDX-License-Identifier: Apache-2.0

// Package fencetest tests package fence on real databases, PostgreSQL and SQLite. It
// is a module of its own, so that nobody else needs their drivers.
package fencetest
