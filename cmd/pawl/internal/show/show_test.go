// SPDX-License-Identifier: Apache-2.0

package show

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt/adapthttp"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/memlock"
)

// The middleware answers with the JSON that show prints, without the store, and with more fields of
// holders and waiters.
func TestMiddlewareHasTheSchemaOfShow(t *testing.T) {
	full := &pawl.Info{Name: "deploy", Token: 41}
	fill(t, reflect.ValueOf(full).Elem())
	locks, err := memlock.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if _, err := locks.TryAcquire(t.Context(), "deploy"); err != nil {
		t.Fatal(err)
	}
	m := adapthttp.Middleware{
		Locks: locks,
		Name:  func(*http.Request) string { return "deploy" },
		Show:  func(*http.Request, *pawl.Info) *pawl.Info { return full },
	}
	answer := httptest.NewRecorder()
	m.Handler(nil).ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))

	shown, err := json.Marshal(showJSON{Schema: report.Schema, Lock: report.LockOf(full)})
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	for data, to := range map[string]*map[string]any{answer.Body.String(): &got, string(shown): &want} {
		if err := json.Unmarshal([]byte(data), to); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
	}
	delete(want, "store")
	for _, list := range []string{"holders", "waiters"} {
		one := got["lock"].(map[string]any)[list].([]any)[0].(map[string]any)
		for _, more := range []string{"trace", "keeps", "idle", "local"} {
			delete(one, more)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the middleware answers\n%s show prints\n%s", answer.Body, shown)
	}
}

// fill gives every field a value, so that none is left out.
func fill(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1e9, 0)))
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(7)
	default:
		t.Fatalf("fill does not know %v", v.Type())
	}
}
