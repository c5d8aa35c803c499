// SPDX-License-Identifier: Apache-2.0

package nested

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/memlock"
)

// TestSurrounding: a lease around us is refused by its id. The name alone says nothing: another store may
// have the same.
func TestSurrounding(t *testing.T) {
	t.Setenv(heldVar, "l1=deploy l2=a%20b broken%zz l3=%zz")
	if got, want := Held(), []pawl.Hold{{Name: "deploy", Lease: "l1"}, {Name: "a b", Lease: "l2"}, {Name: "", Lease: "broken%zz"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("held are %+v, want %+v", got, want)
	}
	info := func(lease string) *pawl.Info {
		return &pawl.Info{Name: "deploy", Holders: []pawl.Held{{Lease: lease, Holder: pawl.Holder{PID: 7}}}}
	}
	for _, c := range []struct {
		info   *pawl.Info
		refuse bool
	}{{info("l1"), true}, {info("l2"), true}, {info("l9"), false}, {info(""), false}, {&pawl.Info{Name: "deploy"}, false}, {nil, false}} {
		err := Surrounding(c.info, "pawl run")
		if (err != nil) != c.refuse {
			t.Errorf("%+v: %v", c.info, err)
		}
		if err != nil && (exit.As(err).Code != exit.Busy || !strings.Contains(err.Error(), "(pid 7)")) {
			t.Errorf("%v; want who holds it", exit.As(err))
		}
	}
}

// TestEnviron: the variables of a run around us are replaced, but for the leases, to which ours is added; the
// store stays as the user has set it.
func TestEnviron(t *testing.T) {
	for key, value := range map[string]string{
		heldVar: "l1=outer", "PAWL_LOCK": "outer", "PAWL_TOKEN": "99999", "PAWL_LEASE_STORE": "file:///outer",
		"PAWL_STORE": "file:///mine", "PAWL_REDIS_PASSWORD": "s3cret",
	} {
		t.Setenv(key, value)
	}
	c, err := memlock.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lease, err := c.TryAcquire(t.Context(), "a b")
	if err != nil {
		t.Fatal(err)
	}
	for _, keep := range []bool{false, true} {
		env := Environ(lease, "a b", "mem://here", keep)
		for _, want := range []string{"PAWL_LOCK=a b", "PAWL_LEASE=" + lease.ID(), "PAWL_LEASE_STORE=mem://here", heldVar + "=l1=outer " + lease.ID() + "=a%20b", "PAWL_STORE=file:///mine"} {
			key, _, _ := strings.Cut(want, "=")
			var got []string
			for _, s := range env {
				if strings.HasPrefix(s, key+"=") {
					got = append(got, s)
				}
			}
			if !slices.Equal(got, []string{want}) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if has := slices.Contains(env, "PAWL_REDIS_PASSWORD=s3cret"); has != keep && canKeep() {
			t.Errorf("keep passwords %v: the command gets it: %v", keep, has)
		}
		if slices.Contains(env, "PAWL_TOKEN=99999") {
			t.Error("the command gets the token of the run around it")
		}
	}
}
