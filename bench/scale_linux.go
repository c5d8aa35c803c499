// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/internal/scale"
)

// ofStore are the stores that -scale knows, by the scheme of their URL.
var ofStore = map[string]struct {
	contender string
	servers   []string
	most      float64 // locks in a call, on average
}{
	"redis":    {"pawl", oneRedis, 20},
	"zk":       {"pawl zk", []string{"zk"}, 1},
	"etcd":     {"pawl etcd", []string{"etcd"}, 1},
	"postgres": {"pawl postgres", []string{"postgres"}, 1},
}

// point is one load of the comparison.
type point struct {
	name string
	load load
	kept []*measuredLoad // of the rounds in which the machine did little else
	all  []*measuredLoad
}

type measuredLoad struct {
	scale.Measured
	cross, bytes, others float64
	wrong                string
}

func curve(callers int) *point { return &point{name: fmt.Sprint(callers), load: alone(callers)} }

// scaling measures what an operation costs a store's server, predicts from two loads what
// others come to, and measures those.
func (f *flags) scaling() error {
	dir, err := os.MkdirTemp("", "pawl-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, scheme := range strings.Split(f.scale, ",") {
		s, ok := ofStore[scheme]
		if !ok {
			return fmt.Errorf("-scale %s: no such store here", scheme)
		}
		w, err := newWorld(s.servers, 30*time.Second)
		if err != nil {
			return err
		}
		err = f.scaleOf(scheme, dir, w)
		w.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *flags) scaleOf(scheme, dir string, w *world) error {
	s := ofStore[scheme]
	given := []*point{curve(1), curve(4), curve(16), curve(64)}
	checked := []*point{curve(2), curve(8), curve(32), curve(128), curve(256)}
	clients := &point{name: "64 clients", load: load{Seats: 64, Own: true, Apart: true, Measure: pair}}
	turns := &point{name: "hand-offs of 2 × 64 clients", load: load{Procs: 2, Seats: 64, Own: true, Apart: true, Meet: true, Measure: waiting}}
	all := slices.Concat(given, checked, []*point{clients, turns})
	for range f.rounds {
		for _, p := range all {
			m := f.one(scheme, dir, w, p.load)
			if m.wrong != "" {
				return fmt.Errorf("%s, %s: %s", scheme, p.name, m.wrong)
			}
			p.all = append(p.all, m)
			if m.others < 0.25 {
				p.kept = append(p.kept, m)
			}
		}
	}
	for _, p := range all {
		if len(p.kept) == 0 {
			fmt.Printf("%s, %s: the machine did other things in each round\n", scheme, p.name)
			p.kept = p.all
		}
	}
	var from []scale.Measured
	for _, p := range given {
		from = append(from, p.middle().Measured)
	}
	path := scale.Fit(s.most, from...)
	fmt.Printf("%s: predicted from the first %d; besides both processors %.0f µs\n", scheme, len(from), path.Rest*1e6)
	for _, p := range append(given, checked...) {
		m, x := p.middle(), path.Closed(p.load.Seats)
		fmt.Printf("  %4s callers: %7.0f a second, predicted %7.0f, %.2f; client %.1f µs, server %.1f µs, locks in a call %.1f (%d of %d rounds)\n",
			p.name, m.Rate, x.Rate, x.Rate/m.Rate, m.Client*1e6, m.Server*1e6, m.Batch, len(p.kept), len(p.all))
	}
	for _, p := range []*point{clients, turns} {
		m := p.middle()
		fmt.Printf("  %s: %.0f a second, of the server %.1f µs and %.0f bytes each, of the client %.1f µs; %.2f to another process (%d of %d rounds)\n",
			p.name, m.Rate, m.Server*1e6, m.bytes, m.Client*1e6, m.cross, len(p.kept), len(p.all))
	}
	if err := sizes(scheme, w); err != nil {
		fmt.Printf("  sizes were not measured: %v\n", err) // as a PostgreSQL has few connections
	}
	return nil
}

// one runs a load once, and notes how much the machine did besides.
func (f *flags) one(scheme, dir string, w *world, l load) *measuredLoad {
	s := ofStore[scheme]
	r := &run{workload: &workload{id: "scale", servers: s.servers, load: l}, world: w, dir: dir, cell: f.cell}
	m := new(measuredLoad)
	var server time.Duration
	r.watch = func(a *arena) {
		// What it takes to open the clients is over by then.
		for a.start.Load() == 0 || nano() < a.start.Load() {
			if a.over.Load() {
				return
			}
			time.Sleep(time.Millisecond)
		}
		net, used := w.traffic(), w.exact()
		time.Sleep(time.Duration(a.end.Load() - nano()))
		server, m.bytes = w.exact()-used, w.traffic()-net
	}
	used, all, began := busy(), w.exact(), time.Now()
	got := r.measure(s.contender, 0)
	all, took := w.exact()-all, time.Since(began)
	ours := got.Client + all
	m.others = (busy() - used - ours).Seconds() / took.Seconds()
	m.wrong, m.cross, m.bytes = got.Error, perOp(got.Crossed, got), m.bytes/float64(max(got.Ops, 1))
	m.Callers, m.Rate, m.Batch = max(l.Procs, 1)*l.Seats, rate(got), 1
	m.Client, m.Server = perOp(int64(got.Client), got)/1e9, server.Seconds()/float64(max(got.Ops, 1))
	if r := perOp(got.Requests, got); r > 0 && s.most > 1 {
		m.Batch = max(1, 2/r)
	}
	return m
}

// middle is the median of each figure.
func (p *point) middle() *measuredLoad {
	of := func(f func(*measuredLoad) float64) float64 {
		var list []float64
		for _, m := range p.kept {
			list = append(list, f(m))
		}
		return median(list)
	}
	m := &measuredLoad{cross: of(func(m *measuredLoad) float64 { return m.cross }), bytes: of(func(m *measuredLoad) float64 { return m.bytes })}
	m.Callers = p.kept[0].Callers
	m.Rate = of(func(m *measuredLoad) float64 { return m.Rate })
	m.Client = of(func(m *measuredLoad) float64 { return m.Client })
	m.Server = of(func(m *measuredLoad) float64 { return m.Server })
	m.Batch = of(func(m *measuredLoad) float64 { return m.Batch })
	return m
}
