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
	"github.com/pawl-go/pawl/driver/storekit"
)

// Parts of keys. docs/etcd-protocol.md describes the keys for other implementations.
const (
	lockPart   = "lock/"
	clientPart = "client/"
	brokenPart = "broken/"
)

// Kinds in keys. The keys of all leases on a name form one range. So do the keys of all that are not shared.
const (
	kindShared    = "r"
	kindSlots     = "s" // followed by the number of slots
	kindExclusive = "x"
)

var escaper = strings.NewReplacer("%", "%25", "/", "%2F")
var unescaper = strings.NewReplacer("%25", "%", "%2F", "/")

// escape returns name as a part of a key, without a slash, so that the keys of one name are never among the keys
// of another. If one name is a prefix of another, so are their escaped forms.
func escape(name string) string { return escaper.Replace(name) }

// all returns the range of all keys of the name.
func (p place) all() (from, to string) { return string(p), string(p[:len(p)-1]) + "0" }

// unshared returns the range of the keys of leases that are not shared.
func (p place) unshared() (from, to string) { return string(p) + kindSlots, string(p) + "y" }

// rivals returns the range of the keys that can keep req from getting the name.
func (p place) rivals(req *driver.Request) (from, to string) {
	if req.Shared {
		return p.unshared()
	}
	return p.all()
}

// key returns the key of a request. It contains the id of the etcd lease, which serves many requests. etcd
// remembers deleted keys until it compacts its history, and reads them when it compares the keys of a name. If
// each lease had a new key, each request would be slower than the one before.
func (p place) key(req *driver.Request, backing clientv3.LeaseID) string {
	kind := kindExclusive
	switch {
	case req.Shared:
		kind = kindShared
	case req.Slots > 0:
		kind = kindSlots + strconv.Itoa(req.Slots)
	}
	return string(p) + kind + "/" + hex(int64(backing))
}

// hex returns the id of an etcd lease as etcdctl writes it.
func hex(backing int64) string { return strconv.FormatInt(backing, 16) }

// entry is one key of a name: a holder or a waiter.
type entry struct {
	name, kind string
	named      string // the etcd lease in the key's name
	sharing    storekit.Sharing
	kv         *mvccpb.KeyValue
	record     record // empty if the value was not read
}

// parse reads a key, and its value if there is one. ok is false if the key does not belong to a lease.
func (s *store) parse(kv *mvccpb.KeyValue) (e entry, ok bool) {
	name, kind, backing, ok := s.layout.split(string(kv.Key))
	if !ok {
		return e, false
	}
	e = entry{name: name, kind: kind, named: backing, kv: kv}
	if kind == "" {
		// A session of the concurrency package uses one key for all its leases on a name. The create revision
		// tells them apart.
		e.record.Who, e.record.Lease = "a client of another library", backing+"-"+strconv.FormatInt(kv.CreateRevision, 10)
		return e, true
	}
	if len(kv.Value) > 0 {
		_ = json.Unmarshal(kv.Value, &e.record) // on an error the record is empty
	}
	e.record.Lease = cmp.Or(e.record.Lease, backing)
	n, isSlots := strings.CutPrefix(e.kind, kindSlots)
	switch {
	case e.kind == kindShared:
		e.sharing.Shared = true
	case e.kind == kindExclusive:
	case isSlots:
		n, err := strconv.Atoi(n)
		if err != nil || n <= 0 {
			return e, false
		}
		e.sharing.Slots = n
	default:
		return e, false
	}
	return e, true
}

// record is the value of a key.
type record struct {
	storekit.Record
	Client   string `json:"client"` // store.id of the client
	Lease    string `json:"lease"`
	Since    int64  `json:"since"`              // when the key was put, in µs since 1970 by its client's clock
	Acquired int64  `json:"acquired,omitempty"` // when a waiter was granted the name; the first renewal writes it
}

func (s *store) newRecord(req *driver.Request) record {
	return record{
		Record: storekit.Record{Holder: *req.Holder, Why: req.Why, Holds: req.Holds, Keeps: keeps(req)},
		Client: s.id, Lease: req.Lease, Since: time.Now().UnixMicro(),
	}
}

func encode(record any) string { return string(storekit.JSON(record)) }

// mark returns the mark of a lease, given its client and the etcd lease in its key's name; see listen.
func (s *store) mark(client, named string) string {
	return s.prefix + clientPart + client + "/" + named
}

// brokenKey returns the key from which the client of a broken lease learns who broke it. Its value is a
// storekit.Record.
func (s *store) brokenKey(lease string) string { return s.prefix + brokenPart + lease }

// seconds returns a TTL in seconds, rounded up. etcd counts TTLs in seconds.
func seconds(ttl time.Duration) int64 {
	return int64((ttl + time.Second - 1) / time.Second)
}
