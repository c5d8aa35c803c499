// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

// queue is the directory with the tickets of one name. A ticket is a FIFO that its waiter keeps open for reading.
// The queue is sorted by the tickets' names.
//
// The queue only gives the order and wakes waiters. If tickets are lost, or two waiters are both the head, the
// order is lost, but the flock still excludes.
type queue struct {
	store *store
	dir   string
}

// ticket is the name of a ticket's file.
type ticket struct {
	seq   uint64 // the time in nanoseconds, or one more than the last in the queue
	pid   int
	space string // the PID namespace of pid
}

func newTicket(seq uint64) ticket { return ticket{seq, os.Getpid(), driver.PIDSpace()} }

func (t ticket) file() string { return fmt.Sprintf("%020d.%d.%s", t.seq, t.pid, t.space) }

func parseTicket(file string) (ticket, bool) {
	parts := strings.SplitN(file, ".", 3)
	if len(parts) < 3 || strings.HasSuffix(file, whoSuffix) {
		return ticket{}, false
	}
	seq, err := strconv.ParseUint(parts[0], 10, 64)
	pid, perr := strconv.Atoi(parts[1])
	t := ticket{seq, pid, parts[2]}
	return t, err == nil && perr == nil && t.file() == file
}

func (t ticket) before(u ticket) int {
	return cmp.Or(cmp.Compare(t.seq, u.seq), cmp.Compare(t.pid, u.pid), cmp.Compare(t.space, u.space))
}

func (t ticket) stopped() bool { return process{PID: t.pid, Space: t.space}.stopped() }

func (s *store) queue(enc string) queue { return queue{s, s.path(enc, queueSuffix)} }

func (q queue) path(t ticket) string { return filepath.Join(q.dir, t.file()) }

// list returns all tickets in order. Some may belong to dead waiters.
func (q queue) list() ([]ticket, error) {
	dir, err := q.store.openFile(q.dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	files, err := dir.Readdirnames(-1)
	if errors.Is(err, fs.ErrNotExist) { // the directory was removed after it was opened
		return nil, nil
	}
	var tickets []ticket
	for _, file := range files {
		if t, ok := parseTicket(file); ok {
			tickets = append(tickets, t)
		} else {
			q.sweep(file)
		}
	}
	slices.SortFunc(tickets, ticket.before)
	return tickets, err
}

// sweep removes a temporary file of a waiter that was killed while it made its ticket.
func (q queue) sweep(file string) {
	if !strings.HasPrefix(file, tempPrefix) {
		return
	}
	path := filepath.Join(q.dir, file)
	fi, err := os.Lstat(path)
	if err != nil || time.Since(fi.ModTime()) < time.Minute {
		return
	}
	if here, err := present(path); !here && err == nil {
		os.Remove(path)
	}
}

// alive reports whether the waiter of t lives. If not, it removes the ticket.
func (q queue) alive(t ticket) bool {
	here, err := present(q.path(t))
	if here || err != nil {
		return true
	}
	q.remove(t)
	return false
}

// remove removes a ticket. In a sticky directory it cannot remove a ticket of another user.
func (q queue) remove(t ticket) {
	path := q.path(t)
	_ = unix.Unlink(path + whoSuffix) // first, so that it never stays without its ticket
	_ = unix.Unlink(path)
}

// lined reports whether the queue has a waiter that can take the lock. A waiter that is stopped (for example with
// Ctrl-Z) keeps its place, but does not keep others from a free lock.
func (s *store) lined(enc string) bool {
	q := s.queue(enc)
	tickets, _ := q.list()
	return slices.ContainsFunc(tickets, func(t ticket) bool { return q.alive(t) && !t.stopped() })
}

// place is a waiter's place in the queue.
type place struct {
	queue
	ticket
	who     string   // describes the waiter to others
	fifo    *os.File // the ticket's, open for reading
	watched []*watch // when one of them ends, the waiter looks
}

// join puts a new ticket at the end of the queue.
func (s *store) join(req *driver.Request) (*place, error) {
	p := &place{queue: s.queue(encode(req.Name)), who: waiterText(req)}
	tickets, err := p.list()
	if err != nil {
		return nil, err
	}
	p.ticket = newTicket(uint64(time.Now().UnixNano()))
	if n := len(tickets); n > 0 {
		p.seq = max(p.seq, tickets[n-1].seq+1)
	}
	return p, p.publish()
}

// publish makes the ticket's file. The file gets its name after it is open, so that no other waiter takes it for a
// dead waiter's ticket.
func (p *place) publish() error {
	var err error
	for range 10 {
		if err = p.mkdir(); err != nil {
			return err
		}
		err = p.link()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, fs.ErrExist):
			p.seq++ // another goroutine of this process has the same number
		case !errors.Is(err, fs.ErrNotExist): // a cleaner has removed the directory
			return err
		}
	}
	return err
}

func (p *place) mkdir() error {
	mode := fs.FileMode(0o700)
	if p.store.shared {
		mode = 0o777
	}
	err := os.Mkdir(p.dir, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil && p.store.shared {
		err = os.Chmod(p.dir, mode) // undoes the umask
	}
	return err
}

func (p *place) link() error {
	var fifo *os.File
	path := p.queue.path(p.ticket)
	err := p.store.install(path, func(tmp string) error {
		err := mkfifo(tmp)
		if err == nil {
			fifo, err = os.OpenFile(tmp, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		}
		return err
	})
	if err != nil {
		fifo.Close()
		return err
	}
	p.fifo.Close() // of the ticket that was removed
	p.fifo = fifo
	_ = os.Symlink(p.who, path+whoSuffix) // an error does no harm: the link only describes the waiter
	return nil
}

// ahead returns a watch on the nearest waiter before p that can take the lock, or nil if p is the head. Each
// waiter watches one other, so one waiter wakes when one goes.
func (p *place) ahead() (*watch, error) {
	tickets, err := p.list()
	if err != nil {
		return nil, err
	}
	i, ok := slices.BinarySearchFunc(tickets, p.ticket, ticket.before)
	if !ok {
		// A cleaner has removed the ticket, and the waiters behind do not see this one. Make it again.
		if err := p.publish(); err != nil {
			return nil, err
		}
	}
	for _, t := range slices.Backward(tickets[:i]) {
		if t.stopped() {
			continue
		}
		w, err := openWatch(p.queue.path(t))
		if err != nil {
			return nil, err
		}
		if w != nil {
			w.of = t
			return w, nil
		}
		p.remove(t)
	}
	return nil, nil
}

// end gives up the place.
func (p *place) end() error {
	closeAll(p.watched)
	p.remove(p.ticket)
	p.fifo.Close()
	return nil
}
