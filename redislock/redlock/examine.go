// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// Examine implements driver.Store.
func (d *store) Examine(ctx context.Context) []driver.Finding {
	all := d.Nodes(ctx)
	found := findings(all, d.quorum)
	var servers []*epoch.Server
	for i, s := range all {
		if r, real := d.members[i].Node.(*redisNode); real && s.Err == nil {
			servers = append(servers, r.server)
			found = append(found, d.tripTo(ctx, r)...)
		}
	}
	return append(found, epoch.Examine(ctx, servers)...)
}

// findings says which nodes grant leases, and whether these are enough.
func findings(all []Status, quorum int) (found []driver.Finding) {
	grant := 0
	for _, s := range all {
		f := driver.Finding{Check: "node", Server: s.Addr}
		if f.Level, f.Text, f.Do = s.finding(); f.Level == driver.Fine {
			grant++
		}
		found = append(found, f)
	}
	return append(found, spare(grant, len(all), quorum))
}

// whyDown says why a node counts as down, and what to do.
func whyDown(err error) (level driver.Level, text, do string) {
	const replace = "or replace it: pawl nodes change --help"
	var odd *oddNode
	switch {
	case errors.As(err, &odd):
		return driver.Problem, "it answers, but counts as down: " + odd.text, odd.do
	case errors.Is(err, ErrNotIndependent):
		return driver.Problem, "it answers, but counts as down: " + misses{{"", err}}.text(0), "make it a master on its own, " + replace
	case errors.Is(err, driver.ErrDisagree), errors.Is(err, storekit.ErrDenied), errors.Is(err, storekit.ErrConfig):
		return driver.Problem, "it answers, but counts as down: " + misses{{"", err}}.text(0), "correct that"
	case errors.Is(err, errSilent), errors.Is(err, context.DeadlineExceeded):
		return driver.Warning, "it does not answer", "see whether it hangs (redis-cli -h HOST PING), start it again, " + replace
	}
	return driver.Warning, "it is down: " + misses{{"", err}}.text(0), "start it, " + replace
}

// finding says whether a node grants leases, and what to do if it does not.
func (s Status) finding() (level driver.Level, text, do string) {
	switch {
	case s.Err != nil:
		return whyDown(s.Err)
	case s.Changing != "":
		return driver.Problem, "the nodes are being changed " + s.Changing + ": it grants and renews nothing",
			"wait for that change, repeat its command if it was interrupted, or take it back: pawl nodes change --help"
	case s.Closed > 0:
		return driver.Warning, fmt.Sprintf("it has just started or lost its data, and grants nothing for %v more", driver.ForPeople(s.Closed)),
			"wait; restart no other node until then"
	}
	return driver.Fine, "it grants leases", ""
}

// spare says whether a quorum of nodes grants leases, and whether one more node may fail.
func spare(grant, n, quorum int) driver.Finding {
	f := driver.Finding{Check: "quorum", Text: fmt.Sprintf("%d of %d nodes grant leases, and %d are enough", grant, n, quorum)}
	switch {
	case grant < quorum:
		f.Level, f.Do = driver.Problem, "repair the nodes named here; nothing is granted until then"
	case grant == quorum && grant < n:
		f.Level, f.Text, f.Do = driver.Warning, f.Text+": not one more may fail", "repair the nodes named here"
	}
	return f
}

// tripTo warns if a node is so far away that its answers may come too late.
func (d *store) tripTo(ctx context.Context, n *redisNode) []driver.Finding {
	if d.fixed == 0 {
		return nil // the timeout follows the measured round trips
	}
	began := time.Now()
	if n.server.Do(ctx, n.server.Client.B().Time().Build()).Error() != nil {
		return nil // epoch.Examine reports this
	}
	trip := time.Since(began)
	if trip < d.fixed/2 {
		return nil
	}
	return []driver.Finding{{Check: "node timeout", Server: n.Addr(), Level: driver.Warning,
		Text: fmt.Sprintf("a round trip takes %v, and the client gives up on an answer after %v (?node_timeout=)", trip.Round(100*time.Microsecond), d.fixed),
		Do:   fmt.Sprintf("use ?node_timeout=%v or more, or leave it out", (4 * trip).Round(time.Millisecond))}}
}
