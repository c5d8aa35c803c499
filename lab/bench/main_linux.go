// SPDX-License-Identifier: Apache-2.0

// Command bench compares pawl with other lock libraries, and with the least cost of the stores
// themselves. It starts the servers. All cells of a table run in turn, again and again,
// with the same servers.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

type flags struct {
	run    string
	rounds int
	cell   time.Duration
	list   bool
}

func main() {
	if text := os.Getenv(taskEnv); text != "" {
		if err := work(text); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	var f flags
	flag.StringVar(&f.run, "run", "", "the `WORKLOADS` to run, such as S1,S2/64 (default all)")
	flag.IntVar(&f.rounds, "rounds", 5, "how often every cell runs")
	flag.DurationVar(&f.cell, "cell", 700*time.Millisecond, "how long a cell runs, at most 5s")
	flag.BoolVar(&f.list, "list", false, "list the workloads, and who takes part")
	flag.Parse()
	if err := f.main(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (f *flags) main() error {
	todo, unknown := chosen(f.run)
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: workloads are named with -run", flag.Arg(0))
	case unknown != "":
		return fmt.Errorf("no workload %q: -list lists them", unknown)
	case f.rounds < 1:
		return fmt.Errorf("-rounds %d: use 1 or more", f.rounds)
	case f.cell < 10*time.Millisecond || f.cell > 5*time.Second:
		return fmt.Errorf("-cell %v: use 10ms to 5s", f.cell)
	}
	if f.list {
		for _, w := range todo {
			fmt.Printf("%-12s %s\n", w.id, w.title)
			for _, c := range w.contenders {
				fmt.Printf("%-12s   %s\n", "", c)
			}
		}
		return nil
	}
	if err := pin(); err != nil {
		return err
	}
	results, facts, err := f.measure(todo)
	if err != nil {
		return err
	}
	for _, r := range results {
		fmt.Printf("\n%s: %s\n\n%s", r.id, r.title, r.text())
	}
	fmt.Printf("\n%s\n", strings.Join(facts, "\n"))
	return nil
}

// measure runs the workloads. After INT or TERM it finishes the current cell, stops the
// servers and returns an error.
func (f *flags) measure(todo []*workload) (results []*result, facts []string, err error) {
	dir, err := os.MkdirTemp("", "pawl-bench-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	facts = machine()
	began := time.Now()
	for _, w := range todo {
		world, err := newWorld(w.servers)
		if err != nil {
			return nil, nil, err
		}
		for _, v := range world.versions() {
			if !slices.Contains(facts, v) {
				facts = append(facts, v)
			}
		}
		r := &result{workload: w}
		err = f.rows(r, &run{workload: w, world: world, dir: dir, cell: f.cell}, stop)
		world.stop()
		if err != nil {
			return nil, nil, err
		}
		results = append(results, r)
	}
	return results, append(facts, fmt.Sprintf("%d rounds, cells of %v, %v in all", f.rounds, f.cell, time.Since(began).Round(time.Second))), nil
}

// rows runs all cells of a workload in turn.
func (f *flags) rows(r *result, one *run, stop <-chan os.Signal) error {
	rounds := f.rounds
	if one.once {
		rounds = 1
	}
	for _, name := range one.contenders {
		r.cells = append(r.cells, &cell{contender: name, kind: contenders[name].kind})
	}
	for round := range rounds {
		for _, c := range r.cells {
			select {
			case <-stop:
				return errors.New("interrupted")
			default:
			}
			progress(fmt.Sprintf("%s, round %d of %d: %s", one.id, round+1, rounds, c.contender))
			c.rounds = append(c.rounds, one.measure(c.contender, round))
		}
	}
	progress("")
	return nil
}

// progress shows text in the current line of the terminal, if stderr is one.
func progress(text string) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%s", text)
	}
}
