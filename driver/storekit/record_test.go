// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// TestRecords: each request is described as it is, whatever the one before was.
func TestRecords(t *testing.T) {
	var records Records
	a, b := &driver.Holder{Who: "a", PID: 1}, &driver.Holder{Who: "b", PID: 2}
	holds := []driver.Hold{{Name: "n", Lease: "l"}}
	for i, c := range []struct {
		req   driver.Request
		keeps bool
		want  Record
	}{
		{driver.Request{Holder: a}, false, Record{Holder: *a}},
		{driver.Request{Holder: a}, true, Record{Holder: *a, Keeps: true}},
		{driver.Request{Holder: b}, true, Record{Holder: *b, Keeps: true}},
		{driver.Request{Holder: b, Why: "w"}, true, Record{Holder: *b, Why: "w", Keeps: true}},
		{driver.Request{Holder: b, Why: "w", Holds: holds}, true, Record{Holder: *b, Why: "w", Holds: holds, Keeps: true}},
		{driver.Request{Holder: b, Why: "w"}, true, Record{Holder: *b, Why: "w", Keeps: true}},
	} {
		for range 2 {
			if got := ReadRecord(records.Of(&c.req, c.keeps)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("request %d is described as %+v; want %+v", i, got, c.want)
			}
		}
	}
	if text := records.Of(&driver.Request{Holder: a, Why: `"keeps":true`}, false); strings.Contains(text, `"keeps":true`) {
		t.Errorf("stores take %s for a Record that Keeps", text)
	}
	if got := ReadRecord("no JSON"); !reflect.DeepEqual(got, Record{}) {
		t.Errorf("what cannot be read is %+v", got)
	}
}

// TestHowLost: the holder is told who broke the lease, if anybody did and that can be read.
func TestHowLost(t *testing.T) {
	by := driver.Holder{Who: "admin", Host: "h"}
	if got := HowLost(Record{Holder: by, Why: "stuck"}.String()); got.Reason != driver.Broken || got.By == nil || *got.By != by || got.Why != "stuck" {
		t.Errorf("HowLost = %+v", got)
	}
	if got := HowLost(""); got.Reason != driver.Gone || got.By != nil {
		t.Errorf("HowLost of what nobody has broken = %+v", got)
	}
	if got := HowLost("no JSON"); got.Reason != driver.Broken || got.By != nil {
		t.Errorf("HowLost of what cannot be read = %+v", got)
	}
}
