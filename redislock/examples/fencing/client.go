// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/fence"
	"github.com/pawl-go/pawl/redislock"
)

const ttl = time.Second

// client is the work of a client process: it adds 10 to the account. If it loses its lease
// before it has written, or the service refuses its token, it begins anew.
func client(act, name, redis, account string) {
	opts := new(redislock.Options)
	opts.TTL = ttl
	locks, err := redislock.Open(context.Background(), redis, opts)
	written := false
	if err == nil {
		defer locks.Close()
		p := &pause{on: name == "client 1"}
		work := func(ctx context.Context, lease *pawl.Lease) error {
			err := add(ctx, lease, act, account, p)
			written = err == nil
			return err
		}
		// Do returns ErrLost even if the work is done, and the lease was lost before its end.
		// Then written is true, and it is too late to begin anew.
		for err = locks.Do(context.Background(), "account/7", work); errors.Is(err, pawl.ErrLost) && !written; {
			say("begins anew")
			err = locks.Do(context.Background(), "account/7", work)
		}
	}
	if !written {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// add adds 10 to the account under the lease.
func add(ctx context.Context, lease *pawl.Lease, act, account string, p *pause) error {
	say("has the lock, with token %d", lease.Token())
	c := http.DefaultClient
	if act == "fenced" {
		ctx = fence.WithToken(ctx, lease.Token())
		c = &http.Client{Transport: &fence.Transport{Base: &slowNetwork{p}}}
	}
	// A request with a token does more than read: from now on the service refuses smaller
	// tokens. So no former holder can change the balance after this read.
	balance, err := ask(ctx, c, http.MethodGet, account, "")
	if err != nil {
		return err
	}
	say("reads %s", balance)
	switch act {
	case "careless":
		p.here()
	case "looks":
		p.here()
		if err := lease.Err(); err != nil {
			say("stops: %v", err)
			return err
		}
	case "late":
		if err := lease.Err(); err != nil {
			return err
		}
		p.here()
	}
	var n int
	fmt.Sscan(balance, &n)
	if act != "fenced" {
		ctx = context.WithoutCancel(ctx) // like code that ignores contexts
	}
	if _, err := ask(ctx, c, http.MethodPut, account, fmt.Sprint(n+10)); err != nil {
		say("is refused: %v", err)
		return err
	}
	say("writes %d", n+10)
	return nil
}

// ask sends a request and returns the answer.
func ask(ctx context.Context, c *http.Client, method, url, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if err := fence.FromResponse(resp); err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s", method, resp.Status, text)
	}
	return string(text), err
}

// slowNetwork delays a write. Client 1 is stopped while its write is on the way. Then the
// client cannot stop the write any more, whatever it notices.
type slowNetwork struct{ p *pause }

func (n *slowNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		n.p.here()
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// say tells the parent process what this one does.
func say(format string, args ...any) { fmt.Printf("says "+format+"\n", args...) }

// pause marks a point at which the parent process stops this process, once.
type pause struct{ on bool }

func (p *pause) here() {
	if !p.on {
		return
	}
	p.on = false
	fmt.Println("pause")
	// The parent writes a byte after it has stopped this process. So this process reads the
	// byte when it continues.
	os.Stdin.Read(make([]byte, 1))
}
