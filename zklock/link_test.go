// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// packet is one that begins with three numbers.
func packet(a, b, c uint32, length int) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(length-4))
	for _, n := range []uint32{a, b, c} {
		p = binary.BigEndian.AppendUint32(p, n)
	}
	return append(p, make([]byte, length-len(p))...)
}

// TestLinkHoldsAnswersBack: on a connection that is made again, no answer is read before
// the request that sets the watches anew, which names the last answer that was read.
func TestLinkHoldsAnswersBack(t *testing.T) {
	for _, watches := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ours, servers := net.Pipe()
			defer servers.Close()
			s := &session{store: new(store), watches: make(map[string]*watch), dead: make(chan struct{}), id: 7, timeout: time.Second, answered: driver.Now()}
			if watches {
				s.watches["/a"] = new(watch)
			}
			l := &link{Conn: ours, s: s, again: make(chan struct{})}
			defer l.Close()
			sent := packet(1, 3, 0, 20) // exists
			go io.Copy(io.Discard, servers)
			go func() {
				greeting := packet(0, 1000, 0, 40)
				binary.BigEndian.PutUint64(greeting[12:], 7)
				servers.Write(greeting[:30])
				servers.Write(greeting[30:])
				servers.Write(packet(1, 0, 0, 20))
			}()
			if _, err := l.Write(packet(0, 0, 0, 48)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(l, make([]byte, 40)); err != nil {
				t.Fatal(err)
			}
			began, read := time.Now(), make(chan time.Duration, 1)
			go func() {
				_, err := io.ReadFull(l, make([]byte, 20))
				if err != nil {
					t.Error(err)
				}
				read <- time.Since(began)
			}()
			l.Write(sent)
			time.Sleep(time.Millisecond)
			l.Write(packet(2, opSetWatches, 0, 40))
			want := time.Duration(0)
			if watches {
				want = time.Millisecond
			}
			if took := <-read; took != want {
				t.Errorf("with watches %t, the answer was read after %v, want %v", watches, took, want)
			}
		})
	}
}
