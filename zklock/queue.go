// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// errGone says that the node of a waiter has been deleted by somebody else.
var errGone = errors.New("zklock: the node of this waiter was deleted")

// enter makes the node and looks where it is in the queue.
func (g *grant) enter(ctx context.Context, req *driver.Request) (l line, i int, err error) {
	if err := g.n.make(ctx); err != nil {
		return nil, 0, err
	}
	return g.place(ctx)
}

// own reads the node and has it watched.
func (g *grant) own(ctx context.Context) error {
	for {
		c, err := g.s.watchOwn(ctx, g.n.path(), g)
		switch {
		case err == nil && c.stat.EphemeralOwner != g.s.sessionID():
			return errSession // cannot happen: a link belongs to one session
		case err == nil:
			g.czxid = c.stat.Czxid
			return checkCzxid(g.czxid)
		case errors.Is(err, zk.ErrNoNode):
			return errGone
		}
		if err := g.s.again(ctx, err); err != nil {
			return err
		}
	}
}

// place returns the queue of the name and the node's place in it.
//
// Whatever server answers, however far it is behind, it knows the node, and so all
// that were before it; of those it may not know that they have gone. So a node that is
// among the holders in its eyes is so in truth.
func (g *grant) place(ctx context.Context) (line, int, error) {
	for {
		names, err := g.n.list(ctx)
		if err == nil {
			l, err := readLine(names)
			if err != nil {
				return nil, 0, err
			}
			i := l.index(g.n.name)
			if i < 0 {
				err = errGone
			}
			return l, i, err
		}
		if errors.Is(err, zk.ErrNoNode) {
			return nil, 0, errGone
		}
		if err := g.s.again(ctx, err); err != nil {
			return nil, 0, err
		}
	}
}

// take makes the lease one that holds the name, as soon as it can be trusted. If
// it did not have to wait, trust may count from the request that made its node; else from what a
// quorum has confirmed lately of the session, as long as nothing has been heard of the node itself.
func (g *grant) take(ctx context.Context, req *driver.Request, now bool) error {
	if czxid, known := g.n.born(); now && known {
		g.czxid = czxid
		if err := checkCzxid(czxid); err != nil {
			return err
		}
	} else if now {
		if err := g.own(ctx); err != nil {
			return err
		}
	}
	since, err := g.n.since, g.n.sure
	if !now {
		since, err = g.standing(req.TTL, req.Renewed)
	}
	if err == nil {
		err = g.s.inTime(since, req) // to learn the czxid may have taken long
	}
	if err != nil {
		if since, err = g.confirm(ctx, req); err != nil {
			return err
		}
	}
	if err := g.checkOrder(); err != nil {
		return err
	}
	err = g.begin(tokenOf(g.czxid), since, req.TTL, !now || g.young)
	if g.young {
		g.tellYoung()
	}
	return err
}

// tellYoung notes at the node whether the lease is not trusted yet, for people only.
func (g *grant) tellYoung() {
	g.s.store.work.Go(func() {
		_ = g.write(g.s.store.ctx, func(r *record) {
			g.s.mu.Lock()
			defer g.s.mu.Unlock()
			r.Young = g.timer == nil
		})
	})
}

// confirm has a quorum confirm the node until it shows enough trust, and returns since when. It
// returns errTooSlow if that takes longer than the TTL.
func (g *grant) confirm(ctx context.Context, req *driver.Request) (since driver.Instant, err error) {
	for began := driver.Now(); ; {
		sent, err := g.s.confirmed(ctx, g.n.path())
		if err == nil {
			since, err = g.s.trusted(sent, req.TTL, req.Renewed)
		}
		if err == nil {
			err = g.s.inTime(since, req)
		}
		switch {
		case err == nil:
			return since, nil
		case errors.Is(err, zk.ErrNoNode):
			return 0, errGone
		case errors.Is(err, errYoung) && driver.Now().Sub(began) > req.TTL:
			return 0, g.s.tooSlow(req.TTL)
		case errors.Is(err, errYoung) && !g.young && driver.Now().Sub(began) > g.s.store.tick:
			g.young = true
			g.tellYoung()
		}
		if err := g.s.again(ctx, err); err != nil {
			return 0, err
		}
		g.s.sleep(ctx, g.s.store.tick/4)
	}
}

// lookEvery is after how long a waiter looks although nobody has told it anything:
// package zk does not say if it fails to set its watches on a new connection.
const lookEvery = 20 * time.Second

// rightsEvery is how often a waiter asks whether it still may use the name: no watch tells of a
// change of rights.
const rightsEvery = 2 * time.Second

// Acquire implements driver.Queuer. A node that somebody has deleted, or that has gone with its
// session, is made anew, at the end of the queue.
func (s *store) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if err := checkKind(kindOf(req)); err != nil {
		return nil, err
	}
	for queued := false; ; {
		n, err := s.reach(ctx, req, queued)
		if err != nil {
			return nil, err
		}
		if g, err := n.acquire(ctx, req, &queued); err != errRejoin {
			return g, err
		}
	}
}

// reach returns a session. A waiter that has lost its place with the last one bears it for a TTL that
// there is none.
func (s *store) reach(ctx context.Context, req *driver.Request, queued bool) (*session, error) {
	var away driver.Outage
	for {
		sent := driver.Now()
		n, err := s.leases(ctx, purposeOf(req))
		if err == nil || !queued || ctx.Err() != nil || errors.Is(err, errClosed) || lasting(err) {
			return n, err
		}
		if out := away.Failed(sent, req.TTL, err); out != nil {
			return nil, out
		}
		select {
		case <-time.After(time.Second/2 + rand.N(time.Second/2)):
		case <-ctx.Done():
		}
	}
}

// errRejoin is of a waiter that has lost its place, and is to join the queue again.
var errRejoin = errors.New("zklock: the place in the queue is lost")

// acquire waits in the queue.
func (s *session) acquire(ctx context.Context, req *driver.Request, queued *bool) (driver.Grant, error) {
	g := s.newGrant(req)
	waiting, stop := s.bear(ctx, req.TTL)
	defer stop()
	err := g.wait(waiting, req, queued)
	g.n.gone = g.n.gone || errors.Is(err, errGone)
	if err != nil && *queued && ctx.Err() == nil {
		if out := new(driver.SilentError); errors.As(context.Cause(waiting), &out) {
			// The node goes with its session, or when it can be deleted.
			left, _ := g.result(waiting, err)
			return left, out
		}
		if s.store.ctx.Err() == nil && !g.n.left() && rejoins(err) {
			return nil, errRejoin
		}
	}
	return g.result(ctx, err)
}

// bear returns a context that also ends when nothing has been heard of the servers for
// a TTL, with an *SilentError as its cause. It looks twice: when the machine has been
// suspended, the servers first have to get time for an answer.
func (s *session) bear(ctx context.Context, ttl time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		ticker := time.NewTicker(ttl / 8)
		defer ticker.Stop()
		for silent := 0; silent < 2; {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if silent++; driver.Now().Sub(s.lastAnswer()) < ttl {
				silent = 0
			}
		}
		cancel(&driver.SilentError{For: driver.Now().Sub(s.lastAnswer()), Err: errSilent})
	}()
	return ctx, func() { cancel(nil) }
}

// rejoins reports whether a waiter whose attempt has failed with err joins the
// queue again.
func rejoins(err error) bool {
	return errors.Is(err, errGone) || errors.Is(err, errSession) || errors.Is(err, zk.ErrNoServer)
}

// wait makes the node and returns when it holds the name.
func (g *grant) wait(ctx context.Context, req *driver.Request, queued *bool) error {
	l, i, err := g.enter(ctx, req)
	*queued = *queued || err == nil
	for now := true; ; now = false {
		if err != nil {
			return g.leave(ctx, err)
		}
		if i < l.holders() {
			return g.leave(ctx, g.take(ctx, req, now))
		}
		if err := slotsError(l, g.kind); err != nil {
			return g.leave(ctx, err)
		}
		if now {
			if err := g.own(ctx); err != nil {
				return g.leave(ctx, err)
			}
		}
		var gone string
		if gone, err = g.sleep(ctx, l.before(i)); err != nil {
			return err
		}
		l, i, err = g.after(ctx, l, gone)
	}
}

// after returns the queue without the node that has gone, which may be "", and the place of the own node in it.
//
// What is before a node only leaves. So without the node that has gone, the queue may have
// some that have left as well, but lacks none; if this one is among the holders even so, it need not ask.
func (g *grant) after(ctx context.Context, l line, gone string) (line, int, error) {
	if gone != "" {
		l = slices.DeleteFunc(l, func(c child) bool { return c.name == gone })
		if i := l.index(g.n.name); i < l.holders() {
			return l, i, nil
		}
	}
	return g.place(ctx)
}

// sleep returns when one of the given nodes has gone or changed, or the own one has. It returns
// the name of one that has gone, or "".
func (g *grant) sleep(ctx context.Context, before line) (gone string, err error) {
	s := g.s
	wake := make(chan event, 1)
	for _, c := range before {
		p := g.n.dir + "/" + c.name
		defer s.unwatch(p, wake)
		if err := s.watch(ctx, p, wake); errors.Is(err, zk.ErrNoNode) {
			return c.name, nil
		} else if err != nil {
			return "", s.again(ctx, err)
		}
	}
	ticker := time.NewTicker(rightsEvery)
	defer ticker.Stop()
	for began := driver.Now(); driver.Now().Sub(began) < lookEvery; {
		select {
		case e := <-wake:
			if e.gone {
				return path.Base(e.path), nil
			}
			return "", nil
		case <-g.told:
			return "", nil
		case <-ticker.C:
			if _, err := g.n.dirData(ctx); errors.Is(err, zk.ErrNoAuth) {
				return "", explain(err)
			}
		case <-s.dead:
			return "", s.why()
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "", nil
}
