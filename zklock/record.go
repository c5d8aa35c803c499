// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// record is the data of a lease's node. It describes the holder or waiter to people.
type record struct {
	storekit.Record
	Lease string `json:"lease,omitempty"`
	// Acquired is when the lease was granted, if it had to wait. The first renewal writes it. Without it, the
	// node's creation time counts.
	Acquired time.Time `json:"acquired,omitzero"`
}

// newRecord returns the data of the node that a request makes.
func newRecord(req *driver.Request) []byte {
	return storekit.JSON(record{Record: storekit.Record{Holder: *req.Holder, Why: req.Why, Holds: req.Holds}, Lease: req.Lease})
}

// acquired returns a node's data with the time of the grant added.
func acquired(data []byte, at time.Time) []byte {
	var r record
	_ = json.Unmarshal(data, &r) // cannot fail: this client wrote it
	r.Acquired = at
	return storekit.JSON(r)
}

// readRecord reads the data of a node. If it cannot, the node belongs to another library, and its name becomes the
// lease's id.
func readRecord(c child, data []byte) record {
	var r record
	if json.Unmarshal(data, &r) != nil || r.Lease == "" || guid(r.Lease) != c.guid() {
		r = record{Lease: c.name}
		r.Who = "a client of another library"
	}
	return r
}

// guid returns the guid of the lease, or "" if another library has made the node.
func (c child) guid() string {
	end := len(c.name) - len(marker(c.sharing)) - 10
	if end <= 3 || c.name[:3] != "_c_" {
		return ""
	}
	return c.name[3:end]
}

func held(c child, data []byte, stat *zk.Stat) driver.Held {
	r := readRecord(c, data)
	if r.Acquired.IsZero() {
		r.Acquired = time.UnixMilli(stat.Ctime)
	}
	return driver.Held{
		Holder: r.Holder, Lease: r.Lease, Token: driver.Token(c.token(stat.Czxid)), Why: r.Why,
		Acquired: r.Acquired,
		Shared:   c.sharing.Shared, Slots: c.sharing.Slots,
	}
}

func waiter(c child, data []byte, stat *zk.Stat) driver.Waiter {
	r := readRecord(c, data)
	return driver.Waiter{
		Holder: r.Holder, Lease: r.Lease, Why: r.Why, Holds: r.Holds, Since: time.UnixMilli(stat.Ctime),
		Shared: c.sharing.Shared, Slots: c.sharing.Slots,
	}
}

// broken is the data of a name's node: who broke the last leases on it, and why. The holders of those leases read
// it. Nobody would remove separate nodes for this.
type broken []brokenLease

type brokenLease struct {
	storekit.Record
	Node string `json:"node"` // the lease's node
}

const maxBroken = 16

func readBroken(data []byte) (b broken) {
	_ = json.Unmarshal(data, &b) // an error means that another library wrote the data
	return b
}

// add returns b with one more entry. It removes the oldest entry if b would become longer than maxBroken.
func (b broken) add(node string, by *driver.Holder, why string) broken {
	b = append(b, brokenLease{storekit.Record{Holder: *by, Why: why}, node})
	return b[max(0, len(b)-maxBroken):]
}

// find returns a LostError with the person who has broken the lease of the node, or nil.
func (b broken) find(node string) *driver.LostError {
	for _, r := range slices.Backward(b) {
		if r.Node == node {
			return &driver.LostError{Reason: driver.Broken, By: &r.Holder, Why: r.Why}
		}
	}
	return nil
}
