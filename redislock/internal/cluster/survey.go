// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// survey is one search for the owners of the slots.
type survey struct {
	done  chan struct{} // closed when the fields below are set
	err   error
	ended driver.Instant
}

// survey asks the cluster for the owners of the slots, or waits for a survey that another
// caller has begun. It asks nodes other than suspect first.
func (c *Cluster) survey(ctx context.Context, suspect *epoch.Server) error {
	if c.one != nil {
		return nil
	}
	c.mu.Lock()
	s := c.begin(suspect)
	c.mu.Unlock()
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin returns the survey that is under way, or begins one. The caller holds c.mu.
func (c *Cluster) begin(suspect *epoch.Server) *survey {
	if c.asking != nil && !c.asking.over() {
		return c.asking
	}
	s := &survey{done: make(chan struct{})}
	if !c.spawn(func() {
		s.err = c.ask(suspect)
		s.ended = driver.Now()
		close(s.done)
	}) {
		s.err = driver.ErrClosed
		close(s.done)
	}
	c.asking = s
	return s
}

func (s *survey) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// suspect begins a survey because a Server does not answer or has refused a request, unless
// the last survey is recent. It does not wait for the result.
func (c *Cluster) suspect(s *epoch.Server) {
	const often = 200 * time.Millisecond
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking == nil || c.asking.over() && driver.Now().Sub(c.asking.ended) > often {
		c.begin(s)
	}
}

// ask asks all known nodes other than suspect. If there is no answer within a second, it asks the nodes of the
// configuration, each on a new connection.
func (c *Cluster) ask(suspect *epoch.Server) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.conf.Timeout+time.Second)
	defer cancel()
	soon, end := context.WithTimeout(ctx, time.Second)
	defer end()
	var known, first []func() answer
	c.mu.Lock()
	for _, n := range c.servers {
		if s := n.now(); s != nil && s != suspect {
			known = append(known, func() answer { return slotsOf(ctx, s.Addr, s.Client) })
		}
	}
	c.mu.Unlock()
	a := firstOf(soon, known)
	if a.owners == nil {
		for _, addr := range c.nodes.First() {
			first = append(first, func() answer { return c.askAnew(ctx, addr) })
		}
		a = firstOf(ctx, first)
	}
	if a.owners == nil {
		return a.err
	}
	c.take(a)
	return nil
}

// askAnew asks a node on a new connection.
func (c *Cluster) askAnew(ctx context.Context, addr string) answer {
	client, err := c.nodes.Dial(ctx, addr)
	if client == nil {
		return answer{err: err}
	}
	if c.conf.Owned {
		defer client.Close()
	}
	return slotsOf(ctx, addr, client)
}

// firstOf calls the functions at the same time and returns the first answer that is no error.
func firstOf(ctx context.Context, asks []func() answer) answer {
	answers := make(chan answer, len(asks))
	for _, ask := range asks {
		go func() { answers <- ask() }()
	}
	var errs []error
	for range asks {
		select {
		case a := <-answers:
			if a.err == nil {
				return a
			}
			errs = append(errs, a.err)
		case <-ctx.Done():
			return answer{err: ctx.Err()}
		}
	}
	return answer{err: errors.Join(errs...)}
}

// answer is what one node says about the owners of the slots.
type answer struct {
	owners map[string][][2]int // by address, first and last slots
	err    error
}

func slotsOf(ctx context.Context, addr string, client rueidis.Client) answer {
	rows, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return answer{err: conn.Lacking(err, "cluster|slots")}
	}
	a := answer{owners: make(map[string][][2]int)}
	for _, row := range rows {
		f, err := row.ToArray()
		if err != nil || len(f) < 3 {
			return answer{err: fmt.Errorf("CLUSTER SLOTS: a row has %d parts: %w", len(f), err)}
		}
		first, _ := f[0].AsInt64()
		last, _ := f[1].AsInt64()
		master, err := f[2].ToArray()
		if err != nil || len(master) < 2 || first < 0 || last >= epoch.SlotCount {
			return answer{err: fmt.Errorf("CLUSTER SLOTS: no master of the slots %d to %d: %w", first, last, err)}
		}
		host, _ := master[0].ToString()
		port, _ := master[1].AsInt64()
		at := announced(net.JoinHostPort(host, strconv.FormatInt(port, 10)), addr)
		a.owners[at] = append(a.owners[at], [2]int{int(first), int(last)})
	}
	if len(a.owners) == 0 {
		return answer{err: errNobody(0)}
	}
	return a
}

// announced returns the address that the node at asked means by addr. A node that does not
// know its own host leaves it out.
func announced(addr, asked string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// take replaces the known owners of the slots by those in a. It closes Servers that have had
// no slot and no request for a minute.
func (c *Cluster) take(a answer) {
	const unused = time.Minute
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.owners)
	for addr, ranges := range a.owners {
		n := c.at(addr)
		for _, r := range ranges {
			for slot := r[0]; slot <= r[1]; slot++ {
				c.owners[slot] = n
			}
		}
	}
	c.follow()
	for addr, n := range c.servers {
		if a.owners[addr] == nil && driver.Now().Sub(n.used) > unused {
			delete(c.servers, addr)
			if s := n.now(); s != nil { // nil only if nobody has dialed: dialing takes less than a minute
				c.spawn(s.Close)
			}
		}
	}
}
