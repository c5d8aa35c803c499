// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Examine implements driver.Store. It sends the command srvr to the servers of the URL. They answer it by default,
// but not over TLS.
func (s *store) Examine(ctx context.Context) []driver.Finding {
	if s.tls {
		return append([]driver.Finding{{Check: "server", Text: "over TLS servers do not report their state"}}, s.endlessNodes(ctx)...)
	}
	return append(s.examineAll(ctx), s.endlessNodes(ctx)...)
}

// mostEndless limits how many nodes Examine reports. If there are more, another program uses the root.
const mostEndless = 20

// endlessNodes looks for nodes that are not ephemeral. The servers never grant their locks.
func (s *store) endlessNodes(ctx context.Context) (found []driver.Finding) {
	n, err := s.inspectSession(ctx)
	if err != nil {
		return nil // examineAll reports the error
	}
	names, err := n.names(ctx, "")
	for _, name := range names {
		var l line
		var nodes []content
		if l, nodes, err = n.lineOf(ctx, s.dir(name)); err != nil {
			break
		}
		for i, c := range l {
			if nodes[i].endless() && len(found) < mostEndless {
				text, do := s.endless(name, s.dir(name)+"/"+c.name)
				found = append(found, driver.Finding{Check: "nodes", Level: driver.Problem, Text: text, Do: do})
			}
		}
	}
	if err != nil {
		found = append(found, driver.Finding{Check: "nodes", Text: "not all nodes were looked at: " + err.Error()})
	}
	return found
}

func (s *store) examineAll(ctx context.Context) []driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	found := make([]driver.Finding, len(s.addrs))
	_ = each(ctx, len(s.addrs), func(ctx context.Context, i int) error {
		found[i] = s.examine(ctx, s.addrs[i])
		return nil
	})
	return found
}

func (s *store) examine(ctx context.Context, at string) driver.Finding {
	began := time.Now()
	text, err := s.word(ctx, at, "srvr")
	is := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ": "); ok {
			is[key] = strings.TrimSpace(value)
		}
	}
	if err == nil && is["Mode"] == "" { // the server has sent an error text
		err = errors.New(strings.TrimSpace(text))
	}
	if err != nil {
		return driver.Finding{Check: "server", Server: at, Level: driver.Warning, Text: "it does not report its state: " + err.Error(),
			Do: "check that it runs and serves requests, and that 4lw.commands.whitelist has srvr"}
	}
	version, _, _ := strings.Cut(is["Zookeeper version"], "-")
	return driver.Finding{Check: "server", Server: at, Text: fmt.Sprintf("ZooKeeper %s, %s, %s connections, answers within %v",
		version, is["Mode"], is["Connections"], time.Since(began).Round(100*time.Microsecond))}
}

// word sends a four-letter command to a server, and returns the answer.
func (s *store) word(ctx context.Context, at, word string) (string, error) {
	conn, err := s.dial(ctx, "tcp", at)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end) // if this fails, reading fails, too
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, 64<<10))
	return string(text), err
}
