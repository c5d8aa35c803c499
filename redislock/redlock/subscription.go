// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/internal/nodewire"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

const (
	// lostLease begins the message that a lease was broken. The lease and the news
	// follow.
	lostLease = "lost "
	// yourTurn begins the message to a waiter. There follow the lease, its token or 0, the
	// number of the waiter's request, and the run of the server, or - if that is not known.
	yourTurn = "turn "
)

// hear handles a message that the server has sent on this client's own channel.
func (n *redisNode) hear(_ conn.Session, message string) {
	if rest, ok := strings.CutPrefix(message, lostLease); ok {
		lease, news, _ := strings.Cut(rest, " ")
		n.tell(nodewire.Message{Lease: lease, Broken: true, News: news})
	}
	if rest, ok := strings.CutPrefix(message, yourTurn); ok {
		if f := strings.Fields(rest); len(f) == 4 {
			seq, err := strconv.Atoi(f[2])
			if err == nil {
				n.tell(nodewire.Message{Lease: f[0], Token: number(f[1]), Seq: seq, Run: strings.TrimPrefix(f[3], "-")})
			}
		}
	}
}

// heard is called when messages can be heard again. Earlier messages may have been lost.
func (n *redisNode) heard(*conn.Subscription) { n.tell(nodewire.Message{}) }

func (n *redisNode) tell(m nodewire.Message) {
	if f := n.told.Load(); f != nil {
		(*f)(m)
	}
}

// Tell implements Node.
func (n *redisNode) Tell(f func(nodewire.Message)) { n.told.Store(&f) }
