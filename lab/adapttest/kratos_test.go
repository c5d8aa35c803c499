// SPDX-License-Identifier: Apache-2.0

package adapttest

import (
	"context"
	"testing"

	"github.com/go-kratos/kratos/v2"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/memlock"
)

// Of two apps one does the work, and the other one when the first has stopped.
func TestKratos(t *testing.T) {
	var store memlock.Store
	leads := make(chan int, 2)
	run := func(i int) (stop func() error, ended chan error) {
		app := kratos.New(kratos.Signal(), kratos.Server(&adapt.KratosServer{Locks: open(t, &store), Name: "relay",
			Lead: func(ctx context.Context, _ *pawl.Lease) error {
				leads <- i
				<-ctx.Done()
				return ctx.Err()
			}}))
		ended = make(chan error, 1)
		go func() { ended <- app.Run() }()
		return app.Stop, ended
	}
	stop, ended := run(1)
	if got := <-leads; got != 1 {
		t.Fatalf("app %d leads", got)
	}
	stopOther, otherEnded := run(2)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	if got := <-leads; got != 2 {
		t.Errorf("app %d leads", got)
	}
	if err := stopOther(); err != nil {
		t.Error(err)
	}
	if err := <-otherEnded; err != nil {
		t.Errorf("Run = %v", err)
	}
}
