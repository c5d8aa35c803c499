// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// Names of what is in the store; docs/etcd-protocol.md is the contract with
// others.
const (
	lockPart   = "lock/"
	clientPart = "client/"
	brokenPart = "broken/"
)

// Kinds, as they are in keys: so that the keys of all that are not shared are one
// range, and so are those of one name.
const (
	kindShared    = "r"
	kindSlots     = "s" // followed by their number
	kindExclusive = "x"
)

var escaper = strings.NewReplacer("%", "%25", "/", "%2F")
var unescaper = strings.NewReplacer("%25", "%", "%2F", "/")

// escape makes name a part of a key without a slash, so that the keys of one
// name are never among those of another. The escaped form of a beginning is the
// beginning of the escaped form.
func escape(name string) string { return escaper.Replace(name) }

// all is the range of all keys of the name.
func (p place) all() (from, to string) { return p.dir, p.dir[:len(p.dir)-1] + "0" }

// unshared is the range of those that are not shared.
func (p place) unshared() (from, to string) { return p.dir + kindSlots, p.dir + "y" }

// rivals is the range of the keys that can be in the way of req.
func (p place) rivals(req *driver.Request) (from, to string) {
	if req.Shared {
		return p.unshared()
	}
	return p.all()
}

// key is the key of an attempt. It is named after the etcd lease that backs it, which
// serves many attempts: etcd remembers each key that there ever was until it is
// compacted, and looks through them when it looks for those in the way. Keys named after
// leases would make each slower than the one before.
func (p place) key(req *driver.Request, backing clientv3.LeaseID) string {
	kind := kindExclusive
	switch {
	case req.Shared:
		kind = kindShared
	case req.Slots > 0:
		kind = kindSlots + strconv.Itoa(req.Slots)
	}
	return p.dir + kind + "/" + hex(int64(backing))
}

// hex is the id of an etcd lease in keys, as etcdctl writes it.
func hex(backing int64) string { return strconv.FormatInt(backing, 16) }

// entry is one key of a name: a holder or a waiter.
type entry struct {
	name, kind string
	named      string // the etcd lease after which the key is named
	shared     bool
	slots      int
	kv         *mvccpb.KeyValue
	record     record // if it was read
}

// parse reads a key and its value, if it was asked for. Whatever is no key of
// ours is left out, by ok.
func (s *store) parse(kv *mvccpb.KeyValue) (e entry, ok bool) {
	name, kind, backing, ok := s.layout.split(string(kv.Key))
	if !ok {
		return e, false
	}
	e = entry{name: name, kind: kind, named: backing, kv: kv}
	if kind == "" {
		// A session has one key for all its leases of a name, so that alone says not which.
		e.record.Who, e.record.Lease = "a client of another library", backing+"-"+strconv.FormatInt(kv.CreateRevision, 10)
		return e, true
	}
	if len(kv.Value) > 0 {
		_ = json.Unmarshal(kv.Value, &e.record) // what cannot be read is shown as nobody
	}
	e.record.Lease = cmp.Or(e.record.Lease, backing)
	n, isSlots := strings.CutPrefix(e.kind, kindSlots)
	switch {
	case e.kind == kindShared:
		e.shared = true
	case e.kind == kindExclusive:
	case isSlots:
		n, err := strconv.Atoi(n)
		if err != nil || n <= 0 {
			return e, false
		}
		e.slots = n
	default:
		return e, false
	}
	return e, true
}

// unescape undoes escape, in one pass.
func unescape(s string) string { return unescaper.Replace(s) }

// record is the value of a key.
type record struct {
	driver.Holder
	Why      string `json:"why,omitempty"`
	Client   string `json:"client"` // the participant
	Lease    string `json:"lease"`
	Since    int64  `json:"since"`              // when it was put, in µs since 1970 by its client's clock
	Acquired int64  `json:"acquired,omitempty"` // when it was granted, likewise; 0: at once, or it has waited and not been renewed yet
	Keeps    bool   `json:"keeps,omitempty"`    // its client may keep it when nobody uses it; see recall
	// Holds are the leases that it holds while it waits.
	Holds []driver.Hold `json:"holds,omitempty"`
}

func (s *store) newRecord(req *driver.Request) record {
	return record{
		Holder: *req.Holder, Why: req.Why, Client: s.id, Lease: req.Lease, Since: time.Now().UnixMicro(), Keeps: keeps(req), Holds: req.Holds,
	}
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "{}" // cannot happen: strings, numbers and booleans
	}
	return string(b)
}

// mark is the key that tells a participant when one of its leases is gone. Named is the etcd lease after which the
// lease's key is named.
func (s *store) mark(client, named string) string {
	return s.prefix + clientPart + client + "/" + named
}

// brokenKey is where the victim of Break learns who did it.
func (s *store) brokenKey(lease string) string { return s.prefix + brokenPart + lease }

// news is the value of a brokenKey.
type news struct {
	By  *driver.Holder `json:"by,omitempty"`
	Why string         `json:"why,omitempty"`
}

// seconds returns a TTL as etcd counts it, never shorter.
func seconds(ttl time.Duration) int64 {
	return int64((ttl + time.Second - 1) / time.Second)
}
