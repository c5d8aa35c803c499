// SPDX-License-Identifier: Apache-2.0

// Package adapttest has the tests of package adapt with the libraries that it adapts
// to. They are a module of their own, so that nobody who uses adapt gets those
// libraries.
package adapttest
