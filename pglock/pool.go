// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver"
)

// pool contains the connections of a store. If one of them breaks, the pool also closes the idle ones that are as
// old or older, because they lead to the same server.
type pool struct {
	config  *pgconn.Config
	before  func(context.Context) (*pgconn.Config, error) // if not nil, returns the configuration for each connection
	timeout time.Duration                                 // to make a connection
	check   func(run) error
	ctx     context.Context
	slots   chan struct{} // holds an element for each connection in use
	dials   chan struct{} // holds an element for each dial under way
	more    chan struct{} // gets an element when a connection becomes idle
	took    atomic.Int64  // how long the last answer took, in ns

	mu     sync.Mutex
	idle   []*conn
	used   int            // connections that are not idle
	broken driver.Instant // connections made until this instant are not used again
}

type conn struct {
	*pgconn.PgConn
	made driver.Instant
	// unconfirmed is the server's warning that a commit may not have reached a replica. Only the goroutine that
	// reads from the connection uses the field.
	unconfirmed string

	pooled bool                                    // a pooler is in between, so the session is not the client's alone
	put    driver.Instant                          // when put was called last; 0 for a new connection
	known  map[string]*pgconn.StatementDescription // prepared statements
}

func newPool(ctx context.Context, config *pgconn.Config, n int, timeout time.Duration, check func(run) error) *pool {
	return &pool{
		ctx: ctx, config: config.Copy(), timeout: timeout, check: check,
		slots: make(chan struct{}, n), dials: make(chan struct{}, n), more: make(chan struct{}, n),
	}
}

// dial connects to the first host that the URL and the store accept.
func (p *pool) dial(ctx context.Context, config *pgconn.Config, hear pgconn.NotificationHandler) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	c := &conn{made: driver.Now(), known: make(map[string]*pgconn.StatementDescription)}
	if p.before != nil && config == p.config {
		var err error
		if config, err = p.before(ctx); err != nil {
			return nil, err
		}
	}
	config = config.Copy()
	// Each host gets its share of the time. So if the machine of a primary is gone, the client still reaches the next
	// host.
	config.ConnectTimeout = min(cmp.Or(config.ConnectTimeout, p.timeout), p.timeout/time.Duration(len(hosts(config))))
	config.OnNotification = hear
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		// The wait for the replica was cancelled. The server has committed without it.
		if n.Severity == "WARNING" && strings.Contains(n.Detail, "already committed locally") {
			c.unconfirmed = n.Message
		}
	}
	wanted := config.ValidateConnect // by target_session_attrs
	config.ValidateConnect = func(ctx context.Context, pc *pgconn.PgConn) error {
		if wanted != nil {
			if err := wanted(ctx, pc); err != nil {
				return err
			}
		}
		return c.look(ctx, pc, p.check)
	}
	pc, err := pgconn.ConnectConfig(ctx, config)
	c.PgConn = pc
	return c, err
}

// look refuses a replica, and a server that was replaced, so that the next host is tried. It also finds out
// whether there is a pooler in between: a pooler makes up a process number.
func (c *conn) look(ctx context.Context, pc *pgconn.PgConn, check func(run) error) error {
	pid := strconv.FormatUint(uint64(pc.PID()), 10)
	res := pc.ExecParams(ctx, lookAtServer, [][]byte{[]byte(pid)}, nil, nil, nil).Read()
	if res.Err != nil {
		return res.Err
	}
	c.pooled = string(res.Rows[0][0]) != pid
	if string(res.Rows[0][1]) == "t" {
		return errReplica
	}
	timeline, err := strconv.ParseUint(string(res.Rows[0][3][:8]), 16, 32) // the name of the WAL file begins with the timeline
	if err != nil {
		return err
	}
	return check(run{string(res.Rows[0][2]), int(timeline)})
}

// lookAtServer also sets search_path: for the session, or through a pooler for this statement only. Before that
// the path may be anything, so the statement names pg_catalog throughout.
const lookAtServer = `SELECT pg_catalog.pg_backend_pid(), r.only, c.system_identifier,
		CASE WHEN NOT r.only THEN pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) END,
		pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) $1::bigint)
	FROM pg_catalog.pg_control_system() c,
		(SELECT pg_catalog.pg_is_in_recovery() OR pg_catalog.current_setting('transaction_read_only')::bool AS only) r`

var errReplica = errors.New("read only connection")

// get returns a connection for the caller alone, until put. If none is idle, get dials one, and takes the first
// that becomes idle. On a slow link a new connection takes two round trips, and another request may put its own
// back earlier.
func (p *pool) get(ctx context.Context) (*conn, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, &driver.Failure{Err: ctx.Err()}
	}
	made := make(chan error, 1)
	for dials := p.dials; ; {
		c := p.pop(ctx)
		if c != nil {
			return c, nil
		}
		var failed error
		select {
		case dials <- struct{}{}:
			dials = nil
			go func() { made <- p.connect() }()
		case err := <-made:
			failed, dials = err, p.dials // without an error another request has taken the connection: dial again
		case <-p.more:
		case <-ctx.Done():
			failed = &driver.Failure{Err: ctx.Err()}
		}
		if failed != nil {
			<-p.slots
			return nil, failed
		}
	}
}

// connect dials an idle connection. It goes on if the request that needs it has given up.
func (p *pool) connect() error {
	c, err := p.dial(p.ctx, p.config, nil)
	<-p.dials
	if err != nil {
		return dialFailure(err)
	}
	p.keep(c, 0)
	return nil
}

// pop returns the idle connection that was used last, or nil.
func (p *pool) pop(ctx context.Context) *conn {
	for {
		p.mu.Lock()
		last := len(p.idle) - 1
		if last < 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[last]
		p.idle = p.idle[:last]
		p.used++
		p.mu.Unlock()
		if c.alive(ctx) {
			return c
		}
		p.drop(c.made)
		p.keep(c, 1)
	}
}

// put returns a connection to the pool. If it is bad, put also closes the idle ones that are as old or older.
func (p *pool) put(c *conn, good bool) {
	if !good {
		p.drop(c.made)
	}
	c.put = driver.Now()
	p.keep(c, 1)
	<-p.slots
}

// keep makes a connection idle. It closes the connection if it is too old, or if there are enough. was is 1 for a
// connection that was in use, and 0 for a new one.
func (p *pool) keep(c *conn, was int) {
	p.mu.Lock()
	p.used -= was
	good := c.made > p.broken && len(p.idle)+p.used < cap(p.slots)
	if good {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !good {
		c.end()
		return
	}
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// drop closes the connections that were made until the given instant: the idle ones now, those in use when they
// are put.
func (p *pool) drop(until driver.Instant) {
	p.mu.Lock()
	p.broken = max(p.broken, until)
	var old []*conn
	p.idle = slices.DeleteFunc(p.idle, func(c *conn) bool {
		if c.made <= p.broken {
			old = append(old, c)
		}
		return c.made <= p.broken
	})
	p.mu.Unlock()
	for _, c := range old {
		c.end()
	}
}

// pingAfter is how long a connection may be idle before alive pings it, on systems without peek.
const pingAfter = time.Second

// alive reports whether an idle connection can be used. A server or a pooler that closes a connection announces
// it. No other input can come on an idle connection, so any input means that the connection is dead.
func (c *conn) alive(ctx context.Context) bool {
	if something, ok := peek(c.Conn()); ok {
		return !something
	}
	return driver.Now().Sub(max(c.made, c.put)) < pingAfter || c.Ping(ctx) == nil
}

// end closes a connection without waiting for the server.
func (c *conn) end() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.Close(ctx)
}

// exec sends one statement and returns its rows. sent is an instant before the sending. exec prepares statements,
// except through a pooler.
func (c *conn) exec(ctx context.Context, sql string, args []string) (rows [][][]byte, sent driver.Instant, err error) {
	values := make([][]byte, len(args))
	for i, a := range args {
		values[i] = []byte(a)
	}
	c.unconfirmed = ""
	sent = driver.Now()
	var res *pgconn.Result
	switch prepared := c.known[sql]; {
	case c.pooled:
		res = c.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	case prepared != nil:
		res = c.ExecStatement(ctx, prepared, values, nil, nil).Read() // unlike ExecPrepared, does not ask for the columns again
	default:
		res = c.first(ctx, sql, values)
	}
	if res.Err == nil && c.unconfirmed != "" {
		return nil, sent, errors.New(c.unconfirmed)
	}
	return res.Rows, sent, res.Err
}

// first prepares a statement and runs it in the same round trip. A renewal may be the first statement of its
// connection, and may not have time for two round trips.
func (c *conn) first(ctx context.Context, sql string, values [][]byte) *pgconn.Result {
	name := "pawl" + strconv.Itoa(len(c.known))
	p := c.StartPipeline(ctx)
	p.SendPrepare(name, sql, nil)
	p.SendQueryPrepared(name, values, nil, nil)
	res := &pgconn.Result{Err: p.Sync()}
	for range 2 {
		if res.Err != nil {
			break
		}
		var next any
		switch next, res.Err = p.GetResults(); next := next.(type) {
		case *pgconn.StatementDescription:
			next.Name, next.SQL = name, sql
			c.known[sql] = next // it stays prepared even if it fails
		case *pgconn.ResultReader:
			res = next.Read()
		}
	}
	if err := p.Close(); res.Err == nil {
		res.Err = err // the commit has failed
	}
	return res
}
