// SPDX-License-Identifier: Apache-2.0

package participant_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// directory is a store like a directory: a lease does not expire, only its client can end it, and others ask
// for it back.
type directory struct {
	driver.Basic
	tell    func(driver.Event)
	holder  string // a lease
	granted uint64
	asks    bool             // somebody asks for a lease back as soon as it is granted
	gone    error            // of a renewal
	looked  []driver.Instant // at a name that another had
}

func (d *directory) Caps() driver.Caps {
	return driver.Caps{Guarantees: driver.Guarantees{Fencing: true, FIFO: true}, Queue: true}
}

func (d *directory) Listen(f func(driver.Event)) { d.tell = f }

func (d *directory) Ask(_ context.Context, req *driver.Request) (driver.Answer, error) {
	if d.holder != "" && d.holder != req.Lease {
		d.looked = append(d.looked, driver.Now())
		return driver.Answer{Free: -1, Rank: 1, Session: d}, nil
	}
	d.holder = req.Lease
	if d.asks {
		d.tell(driver.Event{Kind: driver.Lost, Name: req.Name, Lease: req.Lease, Loss: &driver.LostError{Reason: driver.Broken}})
	}
	d.granted++
	return driver.Answer{Granted: true, Token: 64 * d.granted, Spare: 63, Since: driver.Now(), Session: d}, nil
}

func (d *directory) Renew(context.Context, driver.Ref, time.Duration) (driver.Renewal, error) {
	return driver.Renewal{Since: driver.Now()}, d.gone
}

func (d *directory) End(_ context.Context, l driver.Ref, _ driver.End) (bool, error) {
	found := d.holder == l.Lease
	if found {
		d.holder = ""
	}
	return found, nil
}

func (d *directory) Files(driver.Ref) []*os.File { return []*os.File{os.Stdin} }

// inDirectory runs f in fake time.
func inDirectory(t *testing.T, d *directory, f func(t *testing.T, p *participant.Participant, try func() (*participant.Lease, error))) {
	synctest.Test(t, func(t *testing.T) {
		p := participant.New(d, participant.Options{})
		f(t, p, func() (*participant.Lease, error) {
			return p.TryAcquire(t.Context(), &driver.Request{Name: "n", Lease: "a", TTL: time.Minute, Holder: new(driver.Holder)})
		})
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestAskedBackBeforeTheAnswer: nobody has the lease then, and it does not stay in the store.
func TestAskedBackBeforeTheAnswer(t *testing.T) {
	d := &directory{asks: true}
	inDirectory(t, d, func(t *testing.T, _ *participant.Participant, try func() (*participant.Lease, error)) {
		if g, err := try(); err == nil {
			t.Errorf("TryAcquire = %v; want an error", g)
		}
		synctest.Wait()
		if d.holder != "" {
			t.Error("the store has the lease still")
		}
	})
}

// TestLookNow: a waiter looks as soon as it is told that the name is free, and not a millisecond later.
func TestLookNow(t *testing.T) {
	d := new(directory)
	inDirectory(t, d, func(t *testing.T, p *participant.Participant, try func() (*participant.Lease, error)) {
		g, err := try()
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *participant.Lease)
		go func() {
			g, err := p.Acquire(t.Context(), &driver.Request{Name: "n", Lease: "b", TTL: time.Minute, Holder: new(driver.Holder)})
			if err != nil {
				t.Error(err)
			}
			got <- g
		}()
		synctest.Wait()
		if err := g.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if time.Sleep(time.Hour); len(d.looked) != 1 {
			t.Errorf("it has looked at %v; want that it looks once, and waits", d.looked)
		}
		began := driver.Now()
		d.tell(driver.Event{Kind: driver.Look, Name: "n", Lease: "b"})
		if g := <-got; g == nil || driver.Now() != began {
			t.Errorf("after %v it has %v; want a grant at once", driver.Now().Sub(began), g)
		}
	})
}

// TestHandOverOfWhatIsGone: a lease that nobody renews is not handed over if the store does not have it.
func TestHandOverOfWhatIsGone(t *testing.T) {
	d := new(directory)
	inDirectory(t, d, func(t *testing.T, _ *participant.Participant, try func() (*participant.Lease, error)) {
		g, err := try()
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := g.Reserved(); n != 63 || !g.Lives() {
			t.Errorf("%d tokens are reserved, and the lease lives: %v; want 63", n, g.Lives())
		}
		d.gone = &driver.LostError{Reason: driver.Gone}
		if g.Lives() {
			t.Error("the lease lives although it is lost")
		}
		if _, err := g.Renew(t.Context(), time.Minute); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Renew = %v; want ErrLost", err)
		}
	})
}
