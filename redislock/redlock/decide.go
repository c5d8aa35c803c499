// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// Two changes at once must not make two different generations of the same number: their sets
// need not go together. So a generation is decided before any node records it: by Paxos, among
// the nodes of one set that is in the record of the generation before it. As each generation is decided so,
// all agree on that one, and on its sets.
//
// A change does not adopt what another has proposed, as Paxos does: it says so and ends. What was
// accepted last can always go on, whoever runs that change.

// ErrOtherChange is the error of a change of the nodes beside which there is another.
var ErrOtherChange = errors.New("another change of the nodes is under way")

//go:embed lua/decide.lua
var decideLua string

// changeScripts are those of a change of the nodes.
var changeScripts = append(slices.Clone(scripts), epoch.Script{Text: decideLua})

const (
	maxBallots  = 5
	ballotPause = 100 * time.Millisecond
)

// ballot is a proposal of what follows the present sets.
type ballot struct {
	number uint64
	id     string
	next   epoch.Sets
}

// opinion is what a node says of a ballot.
type opinion struct {
	yes    bool
	has    string // the sets that it has recorded
	heeded uint64 // the greatest ballot that it has heard of

	accepted   uint64 // the ballot that it has accepted, or 0
	follow, of string // what that proposes, and the change that it is of

	closed time.Duration
}

// decide returns nil once it is certain that these sets follow the present ones, and nothing else does.
func (c *change) decide(ctx context.Context, next epoch.Sets) error {
	b := ballot{1, rand.Text(), next}
	for range maxBallots {
		said, ok, err := c.ask(ctx, "ask", b)
		if err := c.overtaken(said); err != nil {
			return err
		}
		if ok {
			if other := latestAccepted(said); other.accepted > 0 && other.follow != content(next) {
				return fmt.Errorf("%w: %s: end that one first, or undo it; see docs/redlock-nodes.md", ErrOtherChange, other.of)
			}
			if said, ok, err = c.ask(ctx, "accept", b); ok {
				return nil
			}
		}
		again := false
		if err := c.overtaken(said); err != nil {
			return err
		}
		for _, o := range said {
			again = again || !o.yes && o.heeded >= b.number
			b.number = max(b.number, o.heeded)
		}
		if !again {
			return fmt.Errorf("%w: not enough nodes have agreed to the step; try again: %w", driver.ErrUnavailable, err)
		}
		b.number++
		select {
		case <-time.After(mathrand.N(ballotPause)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("%w: it asks the nodes at the same time; try again", ErrOtherChange)
}

// overtaken returns an error if a node has recorded a later generation: even a majority that has not may have
// forgotten what it agreed to.
func (c *change) overtaken(said []opinion) error {
	for _, o := range said {
		if generation(o.has) > c.now.Gen {
			return fmt.Errorf("%w: it has made a step meanwhile; try again", ErrOtherChange)
		}
	}
	return nil
}

// voters returns the set whose nodes decide what follows: the smallest, as the fewest have to be there.
func voters(now epoch.Sets) epoch.Set {
	sets := slices.Clone(now.OK)
	if now.From.IDs != nil {
		sets = append(sets, now.From)
	}
	return slices.MinFunc(sets, func(a, b epoch.Set) int { return cmp.Compare(len(a.IDs), len(b.IDs)) })
}

// content is how sets are compared: without the node that has them.
func content(s epoch.Sets) string {
	_, text, _ := strings.Cut(s.String(), ";")
	return text
}

func generation(content string) int {
	gen, _, _ := strings.Cut(content, ";")
	n, _ := strconv.Atoi(gen)
	return n
}

// latestAccepted returns the one whose ballot that was accepted has the greatest number.
func latestAccepted(said []opinion) (latest opinion) {
	for _, o := range said {
		if o.yes && o.accepted > latest.accepted {
			latest = o
		}
	}
	return latest
}

// ask sends a ballot to the voters, all at once, and returns what they say, and whether more than half of them
// say yes; the error says which do not.
func (c *change) ask(ctx context.Context, mode string, b ballot) (said []opinion, ok bool, err error) {
	voters := voters(c.now).IDs
	type answer struct {
		opinion
		err error
	}
	answers := make(chan answer, len(voters))
	for _, id := range voters {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, lookTimeout)
			defer cancel()
			if mode == "ask" { // it may have an older record, or one of another run
				sets := c.now
				sets.Self = id
				_ = c.nodes[id].server.Record(ctx, sets) // else it says what it has
			}
			o, err := c.nodes[id].decide(ctx, mode, content(c.now), b, fmt.Sprintf("from %v to %v", c.old, c.new))
			switch {
			case err == nil && o.closed > 0:
				err = fmt.Errorf("it may have forgotten what it has agreed to, and takes part again in %v", o.closed)
			case err == nil && o.has != content(c.now):
				err = fmt.Errorf("it has recorded %s and not %s", o.has, content(c.now))
			case err == nil && !o.yes:
				err = errors.New("it has heard of another step")
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", c.addrs[id], err)
			}
			answers <- answer{o, err}
		}()
	}
	yes := 0
	errs := []error{fmt.Errorf("more than half of %s have to", strings.Join(voters, ", "))}
	for range voters {
		a := <-answers
		said, errs = append(said, a.opinion), append(errs, a.err)
		if a.yes {
			yes++
		}
	}
	return said, yes > len(voters)/2, errors.Join(errs...)
}

// decide asks the node what it says of a ballot after the present sets.
func (n *redisNode) decide(ctx context.Context, mode, now string, b ballot, of string) (opinion, error) {
	key := n.server.EpochKey("")
	reply, _, err := n.run(ctx, len(scripts), []string{key, key + nextSuffix},
		[]string{mode, now, strconv.FormatUint(b.number, 10), b.id, content(b.next), of})
	if err != nil {
		return opinion{}, err
	}
	if len(reply) != 7 {
		return opinion{}, errGarbled
	}
	return opinion{
		yes: epoch.Code(reply) == 1, has: text(reply[1]), heeded: uint64(count(reply[2])),
		accepted: uint64(count(reply[3])), follow: text(reply[4]), of: text(reply[5]), closed: millis(reply[6]),
	}, nil
}
