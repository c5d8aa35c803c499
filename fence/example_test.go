// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/fence"
	"github.com/pawl-go/pawl/memlock"
)

// A holder that does not know yet that its lease has ended is refused, as the
// resource has seen the token of the next one. In a program, memlock is one of the
// other stores.
func Example() {
	ctx := context.Background()
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	var guard fence.Memory
	total := 0 // the resource
	add := func(ctx context.Context, amount int, token pawl.Token) error {
		return guard.Do(ctx, "total", token, func() error {
			total += amount // reads and writes
			return nil
		})
	}

	late, err := locks.Acquire(ctx, "total")
	if err != nil {
		log.Fatal(err)
	}
	late.Release(ctx) // or it ends while its holder is paused
	fmt.Println(locks.Do(ctx, "total", func(ctx context.Context, lease *pawl.Lease) error {
		return add(ctx, 10, lease.Token())
	}))
	fmt.Println(add(ctx, 5, late.Token()))
	fmt.Println("total:", total)

	// Output:
	// <nil>
	// fence: token 1 is older than 2, which resource "total" has seen: the lease it came from has ended
	// total: 10
}

// A server with fenced resources, and clients that send the token of their lease.
func ExampleHandler() {
	var guard fence.Memory
	byPath := func(r *http.Request) string { return r.URL.Path }
	save := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "saved with token", fence.Token(r.Context()))
	})
	server := httptest.NewServer(fence.Handler(&guard, byPath, save))
	defer server.Close()

	client := &http.Client{Transport: &fence.Transport{}}
	put := func(token pawl.Token) error {
		ctx := fence.WithToken(context.Background(), token) // in a program, of the lease's context and token
		r, err := http.NewRequestWithContext(ctx, "PUT", server.URL+"/invoice/42", strings.NewReader("10"))
		if err != nil {
			return err
		}
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if err := fence.FromResponse(resp); err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		fmt.Print(string(body))
		return err
	}
	fmt.Println(put(34))
	fmt.Println(put(33))

	// Output:
	// saved with token 34
	// <nil>
	// fence: token 33 is older than 34, which resource "/invoice/42" has seen: the lease it came from has ended
}
