// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"cmp"
	"context"
	"errors"
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
	places  chan struct{} // holds an element for each connection, also for one that is being made
	idle    chan *conn
	took    atomic.Int64 // how long the last answer took, in ns

	mu     sync.Mutex
	broken driver.Instant // connections made until this instant are not used again
}

type conn struct {
	*pgconn.PgConn
	made driver.Instant
	// unconfirmed is the server's warning that a commit may not have reached a replica. Only the goroutine that
	// reads from the connection uses the field.
	unconfirmed string

	pooled bool                                    // a pooler is in between, so the session is not the client's alone
	used   driver.Instant                          // by put: when it became idle
	known  map[string]*pgconn.StatementDescription // prepared calls, by function
}

func newPool(ctx context.Context, config *pgconn.Config, n int, timeout time.Duration, check func(run) error) *pool {
	return &pool{
		ctx: ctx, config: config.Copy(), timeout: timeout, check: check,
		places: make(chan struct{}, n), idle: make(chan *conn, n),
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
	made := make(chan error, 1)
	for places := p.places; ; {
		var c *conn
		select {
		case c = <-p.idle: // rather than dial
		default:
			select {
			case c = <-p.idle:
			case places <- struct{}{}:
				places = nil
				go func() { made <- p.connect() }()
			case err := <-made:
				if err != nil {
					return nil, err
				}
				places = p.places // if another request has taken the connection, dial again
			case <-ctx.Done():
				return nil, &driver.Failure{Err: ctx.Err()}
			}
		}
		switch {
		case c == nil:
		case c.alive(ctx):
			return c, nil
		default:
			p.put(c, false)
		}
	}
}

// connect dials an idle connection. It goes on if the request that needs it has given up.
func (p *pool) connect() error {
	c, err := p.dial(p.ctx, p.config, nil)
	if err != nil {
		<-p.places
		return dialFailure(err)
	}
	p.put(c, true)
	return nil
}

// put makes a connection idle. If it is bad, put closes it, and the idle ones that are as old or older.
func (p *pool) put(c *conn, good bool) {
	if !good {
		p.drop(c.made)
	}
	c.used = driver.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep(c)
}

// drop closes the connections that were made until the given instant: the idle ones now, those in use when they
// are put.
func (p *pool) drop(until driver.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = max(p.broken, until)
	for range len(p.idle) {
		select {
		case c := <-p.idle:
			p.keep(c)
		default: // a request has taken it
		}
	}
}

// keep makes a connection idle, or closes it if it is too old. mu is held.
func (p *pool) keep(c *conn) {
	if c.made > p.broken {
		p.idle <- c // there is room, as each connection has a place
		return
	}
	c.end()
	<-p.places
}

// pingAfter is how long a connection may be idle before alive pings it, on systems without peek.
const pingAfter = time.Second

// alive reports whether an idle connection can be used. A server or a pooler that closes a connection announces
// it. No other input can come on an idle connection, so any input means that the connection is dead.
func (c *conn) alive(ctx context.Context) bool {
	if something, ok := peek(c.Conn()); ok {
		return !something
	}
	return driver.Now().Sub(c.used) < pingAfter || c.Ping(ctx) == nil
}

// end closes a connection without waiting for the server.
func (c *conn) end() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.Close(ctx)
}

// call calls a function of the schema. It prepares the call, except through a pooler.
func (c *conn) call(ctx context.Context, schema, function string, args []string) (reply, error) {
	values := make([][]byte, len(args))
	for i, a := range args {
		values[i] = []byte(a)
	}
	c.unconfirmed = ""
	r := reply{sent: driver.Now()}
	var res *pgconn.Result
	switch prepared := c.known[function]; {
	case c.pooled:
		res = c.ExecParams(ctx, statement(schema, function, len(args)), values, nil, nil, nil).Read()
	case prepared != nil:
		res = c.ExecStatement(ctx, prepared, values, nil, nil).Read() // unlike ExecPrepared, does not ask for the columns again
	default:
		res = c.first(ctx, function, statement(schema, function, len(args)), values)
	}
	if res.Err == nil && c.unconfirmed != "" {
		res.Err = errors.New(c.unconfirmed)
	}
	if r.rows = res.Rows; len(r.rows) > 0 {
		r.row = r.rows[0]
	}
	return r, res.Err
}

// first prepares the call of a function and runs it in the same round trip. A renewal may be the first call on its
// connection, and may not have time for two round trips.
func (c *conn) first(ctx context.Context, function, sql string, values [][]byte) *pgconn.Result {
	p := c.StartPipeline(ctx)
	p.SendPrepare(function, sql, nil)
	p.SendQueryPrepared(function, values, nil, nil)
	res := &pgconn.Result{Err: p.Sync()}
	for range 2 {
		if res.Err != nil {
			break
		}
		var next any
		switch next, res.Err = p.GetResults(); next := next.(type) {
		case *pgconn.StatementDescription:
			next.Name = function
			c.known[function] = next // it stays prepared even if it fails
		case *pgconn.ResultReader:
			res = next.Read()
		}
	}
	if err := p.Close(); res.Err == nil {
		res.Err = err // the commit has failed
	}
	return res
}
