// SPDX-License-Identifier: Apache-2.0

package adapthttp_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt/adapthttp"
	"github.com/pawl-go/pawl/memlock"
)

// Two requests for one invoice do not run at the same time, on whatever servers.
func ExampleMiddleware() {
	locks, err := memlock.Open(&pawl.Options{Holder: pawl.Holder{Who: "server 3"}})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	lock := adapthttp.Middleware{
		Locks: locks,
		Name:  func(r *http.Request) string { return "invoice/" + r.PathValue("id") },
		Show:  func(*http.Request, *pawl.Info) *pawl.Info { return nil }, // nothing at all
	}

	mux := http.NewServeMux()
	post := func() {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest("POST", "/invoice/42/pay", nil))
		fmt.Println(answer.Code, answer.Body)
	}
	again := true
	mux.Handle("POST /invoice/{id}/pay", lock.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if again {
			again = false
			post() // somebody clicks twice
		}
		lease, _ := pawl.LeaseFrom(r.Context())
		fmt.Fprintln(w, "paid, with token", lease.Token())
	})))
	post()
	// Output:
	// 423 {"schema":1,"lock":{"name":"","held":true,"token":0,"holders":[],"waiters":[]}}
	//
	// 200 paid, with token 1
}
