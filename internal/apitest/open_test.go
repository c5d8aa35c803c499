// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

var errOpened = errors.New("no such host")

// A store that says how it was opened.
func init() {
	pawl.Register("test-open", func(_ context.Context, url string, opts *pawl.Options) (driver.Store, error) {
		if url != "Test-Open://me:s3cret@h" {
			return nil, errOpened
		}
		opts.TTL = 2 * time.Second // as a URL may say
		return new(memlock.Store).Participant(), nil
	})
}

func TestOpenByURL(t *testing.T) {
	given := pawl.Options{TTL: time.Hour}
	c, err := pawl.Open(t.Context(), "Test-Open://me:s3cret@h", &given)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lease, err := c.TryAcquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(lease.Deadline()); left > 2*time.Second || given.TTL != time.Hour {
		t.Errorf("the lease lasts %v and the options have the TTL %v; want that of the URL, and the options as they were", left, given.TTL)
	}
	if _, err := pawl.OpenStore(t.Context(), "test-open:", nil); !errors.Is(err, errOpened) || err.Error() != "pawl: open: no such host" {
		t.Errorf("OpenStore = %v", err)
	}
	if !slices.IsSorted(pawl.Schemes()) || !slices.Contains(pawl.Schemes(), "test-open") || !slices.Contains(pawl.Schemes(), "mem") {
		t.Errorf("the schemes are %v", pawl.Schemes())
	}
}

func TestOpenSaysWhatToImport(t *testing.T) {
	for url, want := range map[string]string{
		"MYSQL://me:s3cret@h": `registered for the scheme "MYSQL"; registered: mem, test-open. Import the package`,
		"/var/lib/s3cret":     "has no scheme",
		"s3cret@h:6379":       "has no scheme",
		"":                    "has no scheme",
		"mem://h/s3cret":      "mem://name",
	} {
		_, err := pawl.Open(t.Context(), url, nil)
		var failed *pawl.Error
		if !errors.As(err, &failed) || failed.Op != "open" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v; want %s", url, err, want)
		}
	}
}

func TestRegisterRefuses(t *testing.T) {
	ok := func(context.Context, string, *pawl.Options) (driver.Store, error) { return nil, nil }
	for scheme, open := range map[string]pawl.OpenFunc{"mem": ok, "test-nil": nil, "Test": ok, "a b": ok, "": ok} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Register of %q does not panic", scheme)
				}
			}()
			pawl.Register(scheme, open)
		}()
	}
}

// TestOpenMemory: a name is one store for the whole process, and without one each
// client has its own.
func TestOpenMemory(t *testing.T) {
	open := func(url string) *pawl.Client {
		c, err := pawl.Open(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	for _, c := range []struct {
		one, other string
		excludes   bool
	}{{"mem:", "mem:", false}, {"mem://a", "mem:a", true}, {"mem://b", "mem://c", false}} {
		if _, err := open(c.one).TryAcquire(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := open(c.other).TryAcquire(t.Context(), "x"); errors.Is(err, pawl.ErrHeld) != c.excludes {
			t.Errorf("%s beside %s: %v", c.other, c.one, err)
		}
	}
}
