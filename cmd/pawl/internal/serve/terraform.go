// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"context"
	"crypto/md5" // which Terraform sends: it finds damage, not intent
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/fence"
)

// terraform is a backend of type http for Terraform and OpenTofu. The lock of a state is a
// lease in the first store, and each write is fenced by its token.
type terraform struct {
	client func() *pawl.Client // nil while the store is away
	states *States

	mu    sync.Mutex
	locks map[string]*stateLock // the last one of each state
}

// stateLock is a lock that somebody has taken. It lasts until it is unlocked, or its lease
// ends in another way.
type stateLock struct {
	id    string
	info  []byte // as it came: others are told
	lease *pawl.Lease
}

// lockInfo is what Terraform says of a lock.
type lockInfo struct {
	ID        string
	Operation string
	Info      string
	Who       string
	Version   string
	Created   time.Time
	Path      string
}

const (
	statePath = "/terraform/"
	maxState  = 64 << 20 // bytes
	maxID     = 200
	maxWhy    = 512 // bytes that a lease may have
)

// stateName has no capital letters: where a file system does not tell them apart, two locks would be of
// one file.
var stateName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9_-][a-z0-9_.-]{0,99}$`) })

// methods are those of the protocol.
var methods = map[string]func(*terraform, http.ResponseWriter, *http.Request, string){
	"GET": (*terraform).get, "POST": (*terraform).post, "DELETE": (*terraform).remove, "LOCK": (*terraform).lock, "UNLOCK": (*terraform).unlock,
}

func (s *Server) states(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, statePath)
	switch method := methods[r.Method]; {
	case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
		refuse(w, http.StatusForbidden, "states are not for browsers")
	case method == nil:
		w.Header().Set("Allow", "GET, POST, DELETE, LOCK, UNLOCK")
		refuse(w, http.StatusMethodNotAllowed, "a state has GET, POST, DELETE, LOCK and UNLOCK")
	case !stateName().MatchString(name):
		refuse(w, http.StatusNotFound, "the name of a state is one of up to 100 small letters, digits and -_. in "+statePath+"NAME")
	default:
		method(s.terraform, w, r, name)
	}
}

func (t *terraform) get(w http.ResponseWriter, _ *http.Request, name string) {
	switch state, err := t.states.read(name); {
	case err != nil:
		refuse(w, http.StatusInternalServerError, err.Error())
	case state == nil:
		refuse(w, http.StatusNotFound, "there is no such state")
	default:
		reply(w, "application/json", state)
	}
}

func (t *terraform) post(w http.ResponseWriter, r *http.Request, name string) {
	// A large state may come slowly.
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(breakWait)); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	state, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxState))
	if err != nil {
		code := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			code = http.StatusRequestEntityTooLarge
		}
		refuse(w, code, "the state has not come: "+err.Error())
		return
	}
	sum := md5.Sum(state)
	if want := r.Header.Get("Content-MD5"); want != "" && want != base64.StdEncoding.EncodeToString(sum[:]) {
		refuse(w, http.StatusBadRequest, "the state is damaged: it does not fit its Content-MD5")
		return
	}
	t.change(w, r, name, func() error { return t.states.write(name, state) })
}

func (t *terraform) remove(w http.ResponseWriter, r *http.Request, name string) {
	t.change(w, r, name, func() error { return t.states.remove(name) })
}

// change calls f for whoever has the lock. What comes late is refused even if we do not
// know yet that the lease has ended: the directory knows the token of the next.
func (t *terraform) change(w http.ResponseWriter, r *http.Request, name string, f func() error) {
	l, id := t.last(name), r.URL.Query().Get("ID")
	switch {
	case l == nil || l.lease.Err() != nil && l.id != id:
		refuse(w, http.StatusConflict, "nothing is changed without its lock, which ?ID= names: do not use -lock=false")
		return
	case l.id != id:
		locked(w, l.info)
		return
	case l.lease.Err() != nil:
		refuse(w, http.StatusConflict, "the lock has ended: "+l.lease.Err().Error())
		return
	}
	switch err := t.states.guard.Do(r.Context(), name, l.lease.Token(), f); {
	case errors.Is(err, fence.ErrStale):
		refuse(w, http.StatusConflict, "the lock has ended: "+err.Error())
	case err != nil:
		refuse(w, http.StatusInternalServerError, err.Error())
	default:
		w.WriteHeader(http.StatusOK)
	}
}

func (t *terraform) last(name string) *stateLock {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.locks[name]
}

func (t *terraform) lock(w http.ResponseWriter, r *http.Request, name string) {
	body, info, err := readInfo(w, r)
	if err != nil || info.ID == "" || len(info.ID) > maxID {
		refuse(w, http.StatusBadRequest, "the body of LOCK is no JSON of a lock with an ID")
		return
	}
	switch l := t.last(name); {
	case l == nil:
	case l.id == info.ID:
		if l.lease.Err() != nil { // a copy of the request, which comes late: nobody would unlock it
			refuse(w, http.StatusConflict, "this lock has ended")
		} // else it asks again: our answer was lost
		return
	case l.lease.Err() == nil:
		locked(w, l.info)
		return
	}
	client := t.client()
	if client == nil {
		refuse(w, http.StatusServiceUnavailable, "the store of the locks does not answer")
		return
	}
	why := fmt.Sprintf("%.100s by %.100s", cmp.Or(info.Operation, "a lock"), cmp.Or(info.Who, "somebody"))
	why = strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")
	lease, err := client.TryAcquire(r.Context(), "terraform/"+name, pawl.Why(why))
	if err == nil {
		// From here on whoever had the lock before writes no more, and the state is read.
		if err = t.states.guard.Do(r.Context(), name, lease.Token(), nil); err != nil {
			err = errors.Join(err, lease.Release(context.WithoutCancel(r.Context())))
		}
	}
	if err != nil {
		t.notLocked(w, name, err)
		return
	}
	if !t.keep(name, &stateLock{info.ID, body, lease}) {
		_ = lease.Release(context.WithoutCancel(r.Context()))
		refuse(w, http.StatusConflict, "the lock has ended already")
		return
	}
	w.WriteHeader(http.StatusOK)
}

// keep makes l the lock of a state, unless a later one is there: nobody could unlock that then.
func (t *terraform) keep(name string, l *stateLock) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.locks[name]; last != nil && last.lease.Token() > l.lease.Token() {
		return false
	}
	t.locks[name] = l
	return true
}

// notLocked says why LOCK has failed: with the lock that is there, if we know it.
func (t *terraform) notLocked(w http.ResponseWriter, name string, err error) {
	held, known := errors.AsType[*pawl.HeldError](err)
	switch l := t.last(name); {
	case known && l != nil && l.lease.Err() == nil:
		locked(w, l.info)
	case known: // by another process
		locked(w, otherInfo(held.Info))
	case errors.Is(err, pawl.ErrUnavailable), errors.Is(err, pawl.ErrUncertain):
		refuse(w, http.StatusServiceUnavailable, strings.TrimPrefix(err.Error(), "pawl: "))
	default:
		refuse(w, http.StatusInternalServerError, strings.TrimPrefix(err.Error(), "pawl: "))
	}
}

// otherInfo describes a lease as a lock of Terraform.
func otherInfo(info *pawl.Info) []byte {
	var l lockInfo
	if info != nil && len(info.Holders) > 0 {
		h := report.LockOf(info).Holders[0]
		l = lockInfo{ID: h.Lease, Operation: "held", Who: h.Person.String(), Info: h.Why, Created: h.Acquired, Path: info.Name}
	}
	data, err := json.Marshal(l)
	if err != nil {
		data = []byte("{}") // report.LockOf leaves nothing that JSON cannot have
	}
	return data
}

func locked(w http.ResponseWriter, info []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusLocked)
	_, _ = w.Write(info)
}

// unlock ends the lock. terraform force-unlock sends no body: whoever calls it has looked at
// the lock, and means the one that is there.
func (t *terraform) unlock(w http.ResponseWriter, r *http.Request, name string) {
	body, info, err := readInfo(w, r)
	if err != nil { // as when the body was cut off: that is no force-unlock
		refuse(w, http.StatusBadRequest, "the body of UNLOCK is no JSON of a lock")
		return
	}
	l := t.last(name)
	switch {
	case l == nil || l.id != info.ID && len(body) > 0:
		refuse(w, http.StatusConflict, "there is no lock with this ID")
		return
	case errors.Is(l.lease.Err(), pawl.ErrReleased): // our answer was lost
		return
	case l.lease.Err() != nil:
		refuse(w, http.StatusConflict, "the lock has ended: "+l.lease.Err().Error())
		return
	}
	if err := l.lease.Release(r.Context()); err != nil {
		refuse(w, http.StatusServiceUnavailable, strings.TrimPrefix(err.Error(), "pawl: "))
	}
}

func readInfo(w http.ResponseWriter, r *http.Request) (body []byte, info lockInfo, err error) {
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &info)
	}
	return body, info, err
}
