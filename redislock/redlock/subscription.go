// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/internal/nodewire"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

const (
	// lostLease begins the message that a lease was broken, which goes on with the
	// lease and the news.
	lostLease = "lost "
	// yourTurn begins the message to a waiter, which goes on with the lease, its
	// token or 0, the number of its place, and the run of the server, or - if that is not known.
	yourTurn = "turn "
)

// hear handles a message, which the server sends on this client's own channel.
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

// heard is called when messages can be heard again: those that were sent meanwhile are lost.
func (n *redisNode) heard(*conn.Subscription) { n.tell(nodewire.Message{}) }

func (n *redisNode) tell(m nodewire.Message) {
	if f := n.told.Load(); f != nil {
		(*f)(m)
	}
}

// Tell implements Node.
func (n *redisNode) Tell(f func(nodewire.Message)) { n.told.Store(&f) }
