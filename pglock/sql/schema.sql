-- SPDX-License-Identifier: Apache-2.0
-- The schema of package pglock. It is safe to apply again, even while clients run.
--
-- Every function reads the clock after it has locked the row of its name, because it may have waited for the lock.
-- Times are in microseconds since 1970. A kind is 0 for exclusive, -1 for shared, or the number of slots.
--
-- A function or an operator of another schema in the search path would run with the rights of the client. So each
-- function that clients call sets the path, which also applies to the functions that it calls. pawl.us and
-- pawl.timeline name pg_catalog, because they can also run without that path: the last statement of this file
-- calls pawl.timeline.
--
-- The guard of a lease relies on these row locks:
--   Every function locks the row in pawl.lock FOR NO KEY UPDATE, so functions for one name run
--     one after the other.
--   pawl.guard runs in a transaction of the user and locks the lease's row FOR KEY SHARE, which
--     does not block renewals.
--   A function that ends a lease or takes over its row must lock that row FOR UPDATE. It skips
--     the row if it cannot: a guarded lease holds the name until the transaction has ended.

CREATE SCHEMA IF NOT EXISTS pawl;

-- What all clients share: their settings, and what the next run has to know about the last one.
CREATE TABLE IF NOT EXISTS pawl.meta (
  one bool PRIMARY KEY DEFAULT true CHECK (one),
  version int NOT NULL,             -- of this schema; a client works with one version only
  system text,                      -- identifier of the server of the last run
  timeline int,                     -- of the last run; at first, the one on which the schema was made
  closed bigint NOT NULL DEFAULT 0, -- as in epoch; the next run reads it
  mode text NOT NULL DEFAULT '',    -- durable, synchronous or async; see pawl.bind
  max_ttl bigint NOT NULL DEFAULT 0,
  changed bigint NOT NULL DEFAULT 0,
  set_by text NOT NULL DEFAULT '',
  rest bigint NOT NULL DEFAULT 0,   -- by then all leases have ended that are longer than max_ttl
  on_disk bool NOT NULL DEFAULT false, -- the last run confirmed commits only when they were on disk
  floor bigint NOT NULL DEFAULT 0   -- at least the greatest token of all deleted rows
);

-- The record of this run. PostgreSQL empties an unlogged table after a crash and when a replica is promoted. Then
-- no function grants a lease until pawl.bind has decided when leases may be granted.
CREATE UNLOGGED TABLE IF NOT EXISTS pawl.epoch (
  one bool PRIMARY KEY DEFAULT true CHECK (one),
  system text NOT NULL,
  timeline int NOT NULL,
  started timestamptz NOT NULL,     -- when the server's process started; a restored dump has another time
  mode text NOT NULL,
  max_ttl bigint NOT NULL,
  on_disk bool NOT NULL,            -- as in meta
  closed bigint NOT NULL,           -- no lease is granted before
  why text NOT NULL
);

-- One row for each name: the exclusive lease that holds it, and the last token. The row stays for a day after its
-- last use. No index contains a column that changes, so updates leave no dead index entries.
CREATE TABLE IF NOT EXISTS pawl.lock (
  name text COLLATE "C" PRIMARY KEY,
  token bigint NOT NULL DEFAULT 0,  -- the greatest token that was given or reserved
  used bigint NOT NULL DEFAULT 0,
  lease text,
  client text,
  tok bigint,
  until bigint,
  since bigint,
  record text,
  kind int NOT NULL DEFAULT 0,      -- kind of the leases in pawl.sharer
  sharers int NOT NULL DEFAULT 0,   -- number of leases in pawl.sharer
  soonest bigint NOT NULL DEFAULT 0,-- no lease in pawl.sharer ends before
  waiters int NOT NULL DEFAULT 0    -- number of rows in pawl.waiter
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- Leases that hold a name together.
CREATE TABLE IF NOT EXISTS pawl.sharer (
  name text COLLATE "C",
  lease text,
  client text NOT NULL,
  kind int NOT NULL,
  token bigint NOT NULL,
  until bigint NOT NULL,
  since bigint NOT NULL,
  record text NOT NULL,
  PRIMARY KEY (name, lease)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- The queue of each name, ordered by place.
CREATE TABLE IF NOT EXISTS pawl.waiter (
  name text COLLATE "C",
  lease text,
  place bigint NOT NULL,
  client text NOT NULL,
  kind int NOT NULL,
  record text NOT NULL,
  since bigint NOT NULL,
  looks bigint,                     -- by then the waiter must look again; null if it listens
  PRIMARY KEY (name, lease)
);
CREATE UNIQUE INDEX IF NOT EXISTS waiter_place ON pawl.waiter (name, place);

-- Tombstones: leases that have ended while a request for them may be under way, and leases that were broken.
CREATE TABLE IF NOT EXISTS pawl.ended (
  lease text PRIMARY KEY,
  until bigint NOT NULL,
  news text
);

CREATE OR REPLACE FUNCTION pawl.us() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint $$;

-- timeline returns the timeline on which the server writes. It fails on a replica.
CREATE OR REPLACE FUNCTION pawl.timeline() RETURNS int LANGUAGE sql VOLATILE AS
$$ SELECT ('x' OPERATOR(pg_catalog.||) pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::bit(32)::int $$;

-- present reports whether the record belongs to this run: the server has neither been started nor promoted since
-- the record was made, and the client knows the same timeline.
CREATE OR REPLACE FUNCTION pawl.present(e pawl.epoch, p_timeline int) RETURNS bool LANGUAGE sql VOLATILE AS
$$ SELECT coalesce(e.timeline = p_timeline AND e.timeline = pawl.timeline() AND e.started = pg_postmaster_start_time(), false) $$;

-- hears reports whether a client listens, and does not wait. A client has a shared advisory lock while its
-- connection exists. hears tries to take the lock alone, and unlocks it at once: locks for many clients that are
-- gone would fill the server's lock table. If two calls ask at the same time about a client that is gone, one of
-- them gets true; a waiter of that client then gets a claim, which has to run out. One expression locks and
-- unlocks and cannot be interrupted, so the lock cannot stay on a pooler's connection.
CREATE OR REPLACE FUNCTION pawl.hears(client text) RETURNS bool LANGUAGE sql VOLATILE AS
$$ SELECT CASE WHEN pg_try_advisory_lock(hashtextextended('pawl:' || client, 0))
     THEN NOT pg_advisory_unlock(hashtextextended('pawl:' || client, 0)) ELSE true END $$;

-- open decides whether leases may be granted or renewed. code is 1 if so; -1 if there is no record of this run; -5
-- if the TTL is longer than max_ttl; -6 if the mode is synchronous and the server waits for no replica. No lease
-- is granted before closed. open also records that the server no longer waits for the disk, because fsync may be
-- on again when the server restarts after a crash.
CREATE OR REPLACE FUNCTION pawl.open(p_timeline int, p_ttl bigint, OUT code int, OUT closed bigint, OUT max_ttl bigint)
LANGUAGE plpgsql AS $$
DECLARE e pawl.epoch; level text := current_setting('synchronous_commit');
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE 'pawl needs the isolation level read committed' USING ERRCODE = 'invalid_transaction_state';
  END IF;
  SELECT * INTO e FROM pawl.epoch;
  closed := e.closed; max_ttl := e.max_ttl;
  code := CASE WHEN NOT pawl.present(e, p_timeline) THEN -1 WHEN p_ttl > e.max_ttl THEN -5
    WHEN e.mode = 'synchronous' AND (level NOT IN ('on', 'remote_apply') OR current_setting('synchronous_standby_names') = '') THEN -6 ELSE 1 END;
  IF code = 1 THEN
    IF e.on_disk AND current_setting('fsync') <> 'on' THEN
      UPDATE pawl.meta SET on_disk = false;
      UPDATE pawl.epoch SET on_disk = false;
    END IF;
    IF e.mode = 'async' THEN
      PERFORM set_config('synchronous_commit', 'off', true);
    ELSIF level = 'off' THEN
      PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
  END IF;
END $$;

-- bind makes the record of this run if there is none, and returns it. The first client sets mode and max_ttl.
-- After an orderly restart the record is still there, and counts. Otherwise this server may lack leases, and no
-- lease is granted for max_ttl. There are two exceptions: after a crash, if each commit was on disk (durable,
-- synchronous), and on a new timeline, if replicas had each commit (synchronous). Even then no lease is granted
-- before the previous run would have granted it.
CREATE OR REPLACE FUNCTION pawl.bind(p_mode text, p_max_ttl bigint, p_by text,
  OUT system text, OUT timeline int, OUT mode text, OUT max_ttl bigint, OUT set_by text, OUT closed bigint, OUT why text,
  OUT at bigint, OUT isolation text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE m pawl.meta; e pawl.epoch; tl int := pawl.timeline(); newest bigint; here text := (SELECT c.system_identifier FROM pg_control_system() c);
BEGIN
  SELECT * INTO e FROM pawl.epoch;
  SELECT * INTO m FROM pawl.meta;
  IF NOT pawl.present(e, tl) OR e.system <> here THEN
    SELECT * INTO m FROM pawl.meta FOR UPDATE;
    SELECT * INTO e FROM pawl.epoch;
    at := pawl.us();
    IF e.system = here AND e.timeline = tl THEN
      UPDATE pawl.epoch SET started = pg_postmaster_start_time(), on_disk = on_disk AND current_setting('fsync') = 'on';
      UPDATE pawl.meta SET on_disk = on_disk AND current_setting('fsync') = 'on';
    ELSE
      DELETE FROM pawl.epoch;
      IF m.mode = '' THEN
        m.mode := p_mode; m.max_ttl := p_max_ttl; m.set_by := p_by; m.changed := at;
      END IF;
      e.closed := greatest(at + m.max_ttl, m.rest);
      IF m.system IS NULL AND m.timeline = tl THEN
        e.closed := 0; e.why := '';
      ELSIF m.system <> here THEN
        e.why := 'the data are those of another server';
      ELSIF m.timeline <> tl THEN
        e.why := 'a replica was promoted, or a backup restored';
        IF m.mode = 'synchronous' AND m.timeline = tl - 1 THEN e.closed := least(m.closed, e.closed); END IF;
      ELSE
        e.why := 'the server has crashed';
        IF m.on_disk AND current_setting('fsync') = 'on' THEN e.closed := least(m.closed, e.closed); END IF; -- with fsync off now, the crash may have lost an on_disk = false
      END IF;
      e.on_disk := m.mode <> 'async' AND current_setting('fsync') = 'on';
      -- The clock is behind the clock of the previous run, and the last tokens of that run may be lost. So the
      -- next token is an hour of tokens above the newest token that the tables contain.
      SELECT greatest(m.floor, max(l.token)) INTO newest FROM pawl.lock l;
      IF m.system IS NOT NULL AND newest > at + 1000000 THEN
        m.floor := newest + 3600000000;
        UPDATE pawl.lock SET token = m.floor WHERE token < m.floor;
      END IF;
      UPDATE pawl.meta SET system = here, timeline = tl, closed = e.closed, on_disk = e.on_disk, floor = m.floor, mode = m.mode, max_ttl = m.max_ttl, set_by = m.set_by, changed = m.changed;
      INSERT INTO pawl.epoch(system, timeline, started, mode, max_ttl, on_disk, closed, why)
        VALUES (here, tl, pg_postmaster_start_time(), m.mode, m.max_ttl, e.on_disk, e.closed, e.why) RETURNING * INTO e;
    END IF;
  END IF;
  system := e.system; timeline := e.timeline; mode := e.mode; max_ttl := e.max_ttl; closed := e.closed; why := e.why;
  set_by := m.set_by; at := pawl.us(); isolation := current_setting('transaction_isolation');
END $$;

-- change sets max_ttl. With p_bless it also ends the quarantine.
CREATE OR REPLACE FUNCTION pawl.change(p_max_ttl bigint, p_by text, p_bless bool) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE m pawl.meta; at bigint;
BEGIN
  SELECT * INTO m FROM pawl.meta FOR UPDATE;
  at := pawl.us();
  IF p_max_ttl > 0 AND p_max_ttl <> m.max_ttl THEN
    -- A request under way may still be granted the longer TTL: add a second.
    UPDATE pawl.meta SET max_ttl = p_max_ttl, set_by = p_by, changed = at,
      rest = CASE WHEN p_max_ttl < m.max_ttl THEN greatest(rest, at + m.max_ttl + 1000000) ELSE rest END;
    UPDATE pawl.epoch SET max_ttl = p_max_ttl;
  END IF;
  IF p_bless THEN
    UPDATE pawl.meta SET closed = 0;
    UPDATE pawl.epoch SET closed = 0, why = '';
  END IF;
END $$;

-- sweep removes leases that have expired, unless they are guarded. If a lease ends later than the longest TTL
-- allows, the clock was set back after the grant: sweep makes it end after the longest TTL.
CREATE OR REPLACE FUNCTION pawl.sweep(l pawl.lock, at bigint) RETURNS pawl.lock LANGUAGE plpgsql AS $$
DECLARE latest bigint;
BEGIN
  IF l.lease IS NOT NULL OR l.sharers > 0 THEN
    SELECT greatest(at + e.max_ttl, m.rest) INTO latest FROM pawl.epoch e, pawl.meta m;
  END IF;
  IF l.lease IS NOT NULL AND l.until > latest THEN l.until := latest; END IF;
  IF l.lease IS NOT NULL AND l.until <= at THEN
    PERFORM 1 FROM pawl.lock WHERE name = l.name FOR UPDATE SKIP LOCKED;
    IF FOUND THEN l.lease := NULL; END IF;
  END IF;
  IF l.sharers > 0 AND l.soonest <= at THEN
    DELETE FROM pawl.sharer WHERE name = l.name AND lease = ANY (ARRAY(
      SELECT s.lease FROM pawl.sharer s WHERE s.name = l.name AND s.until <= at FOR UPDATE SKIP LOCKED));
    SELECT count(*), coalesce(min(s.until), 0) INTO l.sharers, l.soonest FROM pawl.sharer s WHERE s.name = l.name;
  END IF;
  IF l.sharers > 0 AND l.soonest > latest THEN
    UPDATE pawl.sharer s SET until = latest WHERE s.name = l.name AND s.until > latest;
    l.soonest := latest;
  END IF;
  RETURN l;
END $$;

CREATE OR REPLACE FUNCTION pawl.fits(l pawl.lock, k int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN l.lease IS NULL AND (l.sharers = 0 OR k = l.kind AND (k = -1 OR k > l.sharers));
END $$;

-- give grants the name for px. The token is greater than the last one. For an exclusive lease, give also reserves
-- tokens behind it, for hand-offs within the client. A new row begins with a token from the clock. So reserved
-- tokens must not overtake the clock: if a name is granted very often, give reserves fewer.
CREATE OR REPLACE FUNCTION pawl.give(l pawl.lock, at bigint, px bigint, p_lease text, p_client text, k int, p_record text)
RETURNS pawl.lock LANGUAGE plpgsql AS $$
BEGIN
  l.token := greatest(at, l.token + 1);
  l.used := at;
  IF k = 0 THEN
    l.lease := p_lease; l.client := p_client; l.record := p_record;
    l.tok := l.token; l.until := at + px; l.since := at;
    l.token := l.tok + greatest(0, least(4000, at + 10000 - l.tok));
  ELSE
    INSERT INTO pawl.sharer(name, lease, client, kind, token, until, since, record)
      VALUES (l.name, p_lease, p_client, k, l.token, at + px, at, p_record);
    l.soonest := CASE WHEN l.sharers = 0 THEN at + px ELSE least(l.soonest, at + px) END;
    l.sharers := l.sharers + 1; l.kind := k; l.lease := NULL;
  END IF;
  RETURN l;
END $$;

-- wait_left returns the time in us after which a lease of kind k may be granted if no lease is renewed.
CREATE OR REPLACE FUNCTION pawl.wait_left(l pawl.lock, at bigint, k int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  IF pawl.fits(l, k) THEN RETURN 0; END IF; -- only waiters before it keep it out
  RETURN greatest(100000, -at + CASE WHEN l.lease IS NOT NULL THEN l.until -- a guarded lease holds the name beyond this
    WHEN k = l.kind THEN (SELECT min(until) FROM pawl.sharer WHERE name = l.name) -- the first to end frees a slot
    ELSE (SELECT max(until) FROM pawl.sharer WHERE name = l.name) END);
END $$;

-- admit goes through the queue from its head. If a waiter may have the name now, admit grants it for the claim and
-- sends a message; the waiter has to renew within the claim. admit removes the waiters whose client is gone, at
-- most 1000 in a call, so that the call ends before its client gives up; the next look goes on. To the first
-- waiter that may not have the name, admit sends a message that it is first, if it was not first before (moved).
-- admit stops at the caller, me. It also stops at a waiter that does not listen, which takes the name when it
-- looks.
CREATE OR REPLACE FUNCTION pawl.admit(l pawl.lock, at bigint, claim bigint, moved bool, me text) RETURNS pawl.lock LANGUAGE plpgsql AS $$
DECLARE w pawl.waiter; token bigint; spare bigint; last bigint := -1; gone int := 0;
BEGIN
  WHILE l.waiters > 0 LOOP
    -- Without last, each SELECT would read the index entries of all waiters that have left.
    SELECT * INTO w FROM pawl.waiter WHERE name = l.name AND place > last ORDER BY place LIMIT 1;
    IF NOT FOUND THEN
      l.waiters := 0;
      EXIT;
    END IF;
    last := w.place;
    EXIT WHEN w.lease = me;
    IF coalesce(w.looks <= at, NOT pawl.hears(w.client)) THEN
      DELETE FROM pawl.waiter WHERE name = l.name AND lease = w.lease;
      l.waiters := l.waiters - 1; moved := true; gone := gone + 1;
      EXIT WHEN gone = 1000;
      CONTINUE;
    END IF;
    IF NOT pawl.fits(l, w.kind) THEN
      IF moved AND w.looks IS NULL THEN
        PERFORM pg_notify('pawl:' || w.client, 'first ' || w.lease || ' ' || pawl.wait_left(l, at, w.kind));
      END IF;
      EXIT;
    END IF;
    EXIT WHEN w.looks IS NOT NULL;
    DELETE FROM pawl.waiter WHERE name = l.name AND lease = w.lease;
    l.waiters := l.waiters - 1; moved := true;
    l := pawl.give(l, at, claim, w.lease, w.client, w.kind, w.record);
    token := CASE w.kind WHEN 0 THEN l.tok ELSE l.token END;
    spare := l.token - token;
    PERFORM pg_notify('pawl:' || w.client, concat_ws(' ', 'grant', w.lease, token, at, claim,
      pawl.timeline(), spare, (l.waiters > 0)::int, l.name));
  END LOOP;
  RETURN l;
END $$;

-- missed returns the end of a claim that no waiter took, or null. A waiter that takes a claim renews it, so it
-- ends later.
CREATE OR REPLACE FUNCTION pawl.missed(l pawl.lock, at bigint, claim bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  IF l.sharers > 0 AND l.soonest <= at THEN
    RETURN (SELECT max(s.until) FROM pawl.sharer s WHERE s.name = l.name AND s.until <= at AND s.until = s.since + claim);
  END IF;
  RETURN CASE WHEN l.lease IS NOT NULL AND l.until <= at AND l.until = l.since + claim THEN l.until END;
END $$;

-- pass removes at most 100 waiters before a place, and sends them a message to look. Live waiters come back to
-- their places. Dead ones no longer delay the queue.
CREATE OR REPLACE FUNCTION pawl.pass(l pawl.lock, p_place bigint) RETURNS pawl.lock LANGUAGE plpgsql AS $$
DECLARE w pawl.waiter;
BEGIN
  FOR w IN DELETE FROM pawl.waiter d WHERE d.name = l.name AND d.lease = ANY (ARRAY(
      SELECT q.lease FROM pawl.waiter q WHERE q.name = l.name AND q.place < p_place ORDER BY q.place LIMIT 100)) RETURNING d.* LOOP
    l.waiters := l.waiters - 1;
    PERFORM pg_notify('pawl:' || w.client, 'first ' || w.lease || ' 0');
  END LOOP;
  RETURN l;
END $$;

CREATE OR REPLACE FUNCTION pawl.put(l pawl.lock) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE pawl.lock SET token = l.token, used = l.used, lease = l.lease, client = l.client, tok = l.tok, until = l.until,
    since = l.since, record = l.record, kind = l.kind, sharers = l.sharers, soonest = l.soonest, waiters = l.waiters
  WHERE name = l.name;
END $$;

-- mark returns the key of the advisory lock that a transaction takes when it guards a lease. The lock only shows
-- the transaction: row locks do not show who has them.
CREATE OR REPLACE FUNCTION pawl.mark(p_lease text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT hashtextextended('pawl guards ' || p_lease, 0) $$;

-- guards lists the transactions that guard leases, by mark. The start time of another user's transaction is null.
-- A prepared transaction has no process. For a user who may not read these views, the list is empty.
CREATE OR REPLACE FUNCTION pawl.guards() RETURNS TABLE (mark bigint, tx json) LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY SELECT DISTINCT ON (1) k.classid::bigint << 32 | k.objid::bigint,
      json_build_object('pid', k.pid, 'application', a.application_name, 'since', (extract(epoch FROM a.xact_start) * 1000000)::bigint)
    FROM pg_locks k LEFT JOIN pg_stat_activity a USING (pid)
    WHERE k.locktype = 'advisory' AND k.objsubid = 1 AND k.mode = 'ShareLock' AND k.granted
      AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ORDER BY 1, a.xact_start;
EXCEPTION WHEN insufficient_privilege THEN
  RETURN;
END $$;

-- guarded returns the transaction that guards a lease, or null.
CREATE OR REPLACE FUNCTION pawl.guarded(p_lease text) RETURNS json LANGUAGE sql STABLE AS
$$ SELECT g.tx FROM pawl.guards() g WHERE g.mark = pawl.mark(p_lease) $$;

-- holders returns the leases on a name, at most 16 of them, for the text of an error. It includes an expired lease
-- if a transaction, tx, is guarded by it.
CREATE OR REPLACE FUNCTION pawl.holders(p_name text) RETURNS json LANGUAGE plpgsql STABLE AS $$
DECLARE at bigint := pawl.us();
BEGIN
  RETURN (SELECT coalesce(json_agg(h ORDER BY h.token), '[]') FROM (
    SELECT a.*, CASE WHEN a.until <= at THEN pawl.guarded(a.lease) END AS tx FROM (
      SELECT lease, tok AS token, until, since, record, 0 AS kind FROM pawl.lock WHERE name = p_name AND lease IS NOT NULL
      UNION ALL (SELECT lease, token, until, since, record, kind FROM pawl.sharer WHERE name = p_name ORDER BY token LIMIT 16)) a) h
    WHERE h.until > at OR h.tx IS NOT NULL);
END $$;

-- row returns the row of a name, and locks it.
CREATE OR REPLACE FUNCTION pawl.row(p_name text) RETURNS pawl.lock LANGUAGE plpgsql AS $$
DECLARE l pawl.lock;
BEGIN
  LOOP
    SELECT * INTO l FROM pawl.lock WHERE name = p_name FOR NO KEY UPDATE;
    IF FOUND THEN RETURN l; END IF;
    INSERT INTO pawl.lock(name, token) SELECT p_name, m.floor FROM pawl.meta m ON CONFLICT DO NOTHING;
  END LOOP;
END $$;

-- acquire asks for a lease, confirms a hand-off, and looks again for a waiter. It is safe to repeat. p_wait is 0
-- to not wait, 1 to listen, 2 to look every p_pace. p_place is the waiter's place in the queue, or 0 if it is not
-- known yet.
--
-- If a waiter has missed its claim, a waiter that looks takes the name itself, ahead of the waiters before it.
-- Otherwise paused waiters at the head of the queue would keep the name free for a long time, one claim after the
-- other. A caller that is not in the queue leaves the name to the waiters for 2 s after a missed claim, because
-- they may still look.
--
-- code is 1 if the lease is granted; 0 if not; -3 if it has ended already; -4 if the name is held in another
-- number of slots, which is in token; or a code of pawl.open.
CREATE OR REPLACE FUNCTION pawl.acquire(p_timeline int, p_name text, p_lease text, p_client text, p_kind int, p_record text,
  p_ttl bigint, p_claim bigint, p_wait int, p_pace bigint, p_place bigint,
  OUT code int, OUT token bigint, OUT spare bigint, OUT waits bool, OUT at bigint, OUT wait_left bigint, OUT rank int, OUT closed bigint, OUT holders json, OUT place bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE l pawl.lock; was pawl.lock; w pawl.waiter; first pawl.waiter; is_open record; missed bigint; theirs bool;
BEGIN
  -- The ordinary case in one statement, because each statement costs time: the name is free, and nobody waits. If
  -- the statement waits for the row, its time is from before the wait. Then the lease ends early, but not before
  -- the client's trust, and the token is still greater than the last one.
  IF p_kind = 0 THEN
    UPDATE pawl.lock AS k SET tok = greatest(t.at, k.token + 1), token = greatest(t.at, k.token + 1, least(greatest(t.at, k.token + 1) + 4000, t.at + 10000)),
        lease = p_lease, client = p_client, until = t.at + p_ttl, since = t.at, used = t.at, record = p_record
      FROM pawl.epoch e, (SELECT pawl.us() AS at OFFSET 0) t
      WHERE k.name = p_name AND k.lease IS NULL AND k.sharers = 0 AND k.waiters = 0
        AND e.closed <= t.at AND p_ttl <= e.max_ttl AND e.timeline = p_timeline AND e.timeline = pawl.timeline() AND e.started = pg_postmaster_start_time()
        AND CASE e.mode WHEN 'durable' THEN current_setting('synchronous_commit') <> 'off' AND (NOT e.on_disk OR current_setting('fsync') = 'on')
          WHEN 'async' THEN set_config('synchronous_commit', 'off', true) = 'off' ELSE false END
      RETURNING 1, k.tok, k.token - k.tok, false, t.at INTO code, token, spare, waits, at;
    IF FOUND THEN
      -- A release may have left the tombstone while this statement waited for the row. Only a new statement sees
      -- it.
      PERFORM 1 FROM pawl.ended WHERE lease = p_lease;
      IF NOT FOUND THEN RETURN; END IF;
      UPDATE pawl.lock SET lease = NULL, record = NULL WHERE name = p_name;
      code := -3;
      RETURN;
    END IF;
  END IF;

  is_open := pawl.open(p_timeline, p_ttl);
  IF is_open.code <> 1 THEN
    code := is_open.code; token := is_open.max_ttl;
    RETURN;
  END IF;
  -- A look that would change nothing takes no lock. Waiters look often, and each commit of a transaction that has
  -- locked a row waits for the disk.
  IF p_place > 0 AND p_wait = 1 THEN
    SELECT * INTO l FROM pawl.lock WHERE name = p_name;
    SELECT * INTO w FROM pawl.waiter q WHERE q.name = p_name AND q.lease = p_lease; -- a lease with a row here is not granted
    SELECT * INTO first FROM pawl.waiter q WHERE q.name = p_name ORDER BY q.place LIMIT 1;
    at := pawl.us();
    IF w.lease IS NOT NULL AND w.looks IS NULL AND NOT pawl.fits(l, p_kind)
      AND (l.lease IS NULL OR l.until BETWEEN at + 1 AND at + is_open.max_ttl AND l.record NOT LIKE '%"keeps":true%')
      AND (l.sharers = 0 OR l.soonest BETWEEN at + 1 AND at + is_open.max_ttl) AND coalesce(first.looks > at, pawl.hears(first.client)) THEN
      code := 0; closed := greatest(0, is_open.closed - at); wait_left := pawl.wait_left(l, at, p_kind);
      rank := (SELECT count(*) FROM (SELECT FROM pawl.waiter q WHERE q.name = p_name AND q.place < w.place LIMIT 100) AS before);
      RETURN;
    END IF;
  END IF;
  l := pawl.row(p_name);
  at := pawl.us();
  PERFORM 1 FROM pawl.ended WHERE lease = p_lease;
  IF FOUND THEN
    code := -3;
    RETURN;
  END IF;
  closed := greatest(0, is_open.closed - at);

  IF l.lease = p_lease AND l.until > at THEN
    UPDATE pawl.lock SET until = greatest(until, at + p_ttl) WHERE name = p_name;
    code := 1; token := l.tok; spare := l.token - l.tok; waits := l.waiters > 0;
    RETURN;
  END IF;
  IF l.sharers > 0 THEN
    UPDATE pawl.sharer s SET until = greatest(s.until, at + p_ttl) WHERE s.name = p_name AND s.lease = p_lease AND s.until > at
      RETURNING s.token INTO token;
    IF FOUND THEN
      code := 1; spare := 0; waits := true;
      RETURN;
    END IF;
  END IF;
  was := l;
  IF l.waiters > 0 THEN missed := pawl.missed(l, at, p_claim); END IF;
  theirs := missed > at - 2000000 AND p_place = 0;
  IF theirs IS NOT TRUE THEN l := pawl.sweep(l, at); END IF;
  SELECT * INTO w FROM pawl.waiter WHERE name = p_name AND lease = p_lease;
  IF p_kind > 0 AND l.sharers > 0 AND l.kind > 0 AND l.kind <> p_kind AND w.lease IS NULL AND p_place = 0 AND theirs IS NOT TRUE THEN
    code := -4; token := l.kind;
    IF l IS DISTINCT FROM was THEN PERFORM pawl.put(l); END IF;
    RETURN;
  END IF;

  IF closed = 0 AND theirs IS NOT TRUE THEN
    SELECT * INTO first FROM pawl.waiter q WHERE q.name = p_name ORDER BY q.place LIMIT 1;
    IF missed > 0 AND pawl.fits(l, p_kind) AND pawl.fits(l, first.kind) THEN
      l := pawl.pass(l, CASE p_place WHEN 0 THEN at ELSE p_place END);
      first := NULL;
    ELSIF l.waiters > 0 THEN
      l := pawl.admit(l, at, p_claim, false, p_lease);
      SELECT * INTO first FROM pawl.waiter q WHERE q.name = p_name ORDER BY q.place LIMIT 1;
    END IF;
    -- The caller's turn has come if no waiter is before it.
    IF pawl.fits(l, p_kind) AND (first.lease IS NULL OR first.lease = p_lease) THEN
      IF w.lease IS NOT NULL THEN
        DELETE FROM pawl.waiter WHERE name = p_name AND lease = p_lease;
        l.waiters := l.waiters - 1;
      END IF;
      l := pawl.give(l, at, p_ttl, p_lease, p_client, p_kind, p_record);
      code := 1; token := CASE p_kind WHEN 0 THEN l.tok ELSE l.token END; spare := l.token - token;
      IF l.waiters > 0 THEN l := pawl.admit(l, at, p_claim, true, NULL); END IF;
      waits := l.waiters > 0;
      PERFORM pawl.put(l);
      RETURN;
    END IF;
  END IF;

  code := 0; rank := -1;
  IF p_wait > 0 THEN
    IF w.lease IS NULL THEN
      w.place := p_place;
      IF p_place = 0 OR EXISTS (SELECT FROM pawl.waiter q WHERE q.name = p_name AND q.place = p_place) THEN
        SELECT greatest(at, max(q.place) + 1) INTO w.place FROM pawl.waiter q WHERE q.name = p_name;
      END IF;
      INSERT INTO pawl.waiter(name, lease, place, client, kind, record, since, looks)
        VALUES (p_name, p_lease, w.place, p_client, p_kind, p_record, at, CASE p_wait WHEN 2 THEN at + p_pace END);
      l.waiters := l.waiters + 1;
    ELSIF p_wait = 2 OR w.looks IS NOT NULL THEN
      UPDATE pawl.waiter q SET looks = CASE p_wait WHEN 2 THEN at + p_pace END WHERE q.name = p_name AND q.lease = p_lease;
    END IF;
    place := w.place; rank := (SELECT count(*) FROM (SELECT FROM pawl.waiter q WHERE q.name = p_name AND q.place < w.place LIMIT 100) AS before);
  END IF;
  -- If waiters have left the queue, more of them may be gone. With rank 0 the caller looks again soon.
  IF l.waiters < was.waiters THEN rank := 0; END IF;
  l.used := at;
  IF l IS DISTINCT FROM was THEN PERFORM pawl.put(l); END IF;
  IF p_wait = 0 THEN holders := pawl.holders(p_name); END IF;
  wait_left := pawl.wait_left(l, at, p_kind);
  -- Within a string JSON would escape the quotes, so this text is a field of the record.
  IF l.lease IS NOT NULL AND l.record LIKE '%"keeps":true%' THEN
    PERFORM pg_notify('pawl:' || l.client, concat_ws(' ', 'wanted', l.lease, least(p_wait, 1)));
  END IF;
END $$;

-- acquire_many asks for exclusive leases on several names, for independent requests. It skips locked rows. The
-- first row of the result has the code of pawl.open. One row for each granted lease follows. Each other request
-- has to be sent alone: its name is not free, or the case is not the ordinary one. acquire_many reads the
-- tombstones after it has locked the rows.
CREATE OR REPLACE FUNCTION pawl.acquire_many(p_timeline int, p_client text, p_names text[], p_leases text[], p_records text[], p_ttls bigint[])
RETURNS TABLE (code int, token bigint, spare bigint, waits bool, at bigint, lease text) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE is_open record; free text[]; t bigint;
BEGIN
  is_open := pawl.open(p_timeline, 0);
  code := is_open.code;
  RETURN NEXT;
  IF is_open.code <> 1 OR is_open.closed > pawl.us() THEN RETURN; END IF;
  free := ARRAY(SELECT l.name FROM pawl.lock l
    WHERE l.name = ANY (p_names) AND l.lease IS NULL AND l.sharers = 0 AND l.waiters = 0 FOR NO KEY UPDATE SKIP LOCKED);
  t := pawl.us();
  RETURN QUERY UPDATE pawl.lock AS k SET tok = greatest(t, k.token + 1), token = greatest(t, k.token + 1, least(greatest(t, k.token + 1) + 4000, t + 10000)),
      lease = r.lease, client = p_client, until = t + r.ttl, since = t, used = t, record = r.record
    FROM unnest(p_names, p_leases, p_records, p_ttls) AS r(name, lease, record, ttl)
    WHERE k.name = r.name AND k.name = ANY (free) AND r.ttl <= is_open.max_ttl AND NOT EXISTS (SELECT FROM pawl.ended d WHERE d.lease = r.lease)
    RETURNING 1, k.tok, k.token - k.tok, false, t, k.lease;
END $$;

-- renew begins the TTL of a lease anew, and never shortens it. code is 1; 2 if the lease has more time left than
-- the TTL; 0 if it has ended, with news if it was broken; or a code of pawl.open.
CREATE OR REPLACE FUNCTION pawl.renew(p_timeline int, p_name text, p_lease text, p_kind int, p_ttl bigint, OUT code int, OUT at bigint, OUT news text, OUT max_ttl bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE found_until bigint; is_open record;
BEGIN
  is_open := pawl.open(p_timeline, p_ttl);
  IF is_open.code <> 1 THEN
    code := is_open.code; max_ttl := is_open.max_ttl;
    RETURN;
  END IF;
  code := 0;
  IF p_kind = 0 THEN
    SELECT l.until INTO found_until FROM pawl.lock l WHERE l.name = p_name AND l.lease = p_lease FOR NO KEY UPDATE;
    at := pawl.us();
    IF found_until > at THEN
      UPDATE pawl.lock SET until = at + p_ttl, used = at WHERE name = p_name AND until < at + p_ttl;
      code := 2 - FOUND::int;
      RETURN;
    END IF;
  END IF;
  SELECT s.until INTO found_until FROM pawl.sharer s WHERE s.name = p_name AND s.lease = p_lease FOR NO KEY UPDATE;
  at := pawl.us();
  IF found_until > at THEN
    UPDATE pawl.sharer SET until = at + p_ttl WHERE name = p_name AND lease = p_lease AND until < at + p_ttl;
    code := 2 - FOUND::int;
    RETURN;
  END IF;
  SELECT d.news INTO news FROM pawl.ended d WHERE d.lease = p_lease;
END $$;

-- renew_all renews several leases. It skips locked rows. The first row of the result has the code of pawl.open.
-- One row for each lease that was found follows. Each other lease has ended, or its row is locked: the client has
-- to renew it alone.
CREATE OR REPLACE FUNCTION pawl.renew_all(p_timeline int, p_names text[], p_leases text[], p_kinds int[], p_ttls bigint[])
RETURNS TABLE (code int, at bigint, news text, max_ttl bigint, lease text) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  code := (pawl.open(p_timeline, 0)).code;
  RETURN NEXT;
  IF code <> 1 THEN RETURN; END IF;
  FOR i IN 1 .. cardinality(p_names) LOOP
    IF p_kinds[i] = 0 THEN
      PERFORM 1 FROM pawl.lock l WHERE l.name = p_names[i] AND l.lease = p_leases[i] FOR NO KEY UPDATE SKIP LOCKED;
    ELSE
      PERFORM 1 FROM pawl.sharer s WHERE s.name = p_names[i] AND s.lease = p_leases[i] FOR NO KEY UPDATE SKIP LOCKED;
    END IF;
    IF FOUND THEN
      RETURN QUERY SELECT r.*, p_leases[i] FROM pawl.renew(p_timeline, p_names[i], p_leases[i], p_kinds[i], p_ttls[i]) r;
    END IF;
  END LOOP;
END $$;

-- finish ends a lease that holds the name. code is 1 if the lease had not expired. A guarded lease expires at
-- once, but keeps its row until its transaction has ended.
CREATE OR REPLACE FUNCTION pawl.finish(INOUT l pawl.lock, p_lease text, at bigint, OUT code int, OUT freed bool) LANGUAGE plpgsql AS $$
DECLARE ends bigint;
BEGIN
  code := 0; freed := false;
  IF l.lease = p_lease THEN
    code := (l.until > at)::int;
    l.until := least(l.until, at);
    PERFORM 1 FROM pawl.lock WHERE name = l.name FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      l.lease := NULL; freed := true;
    END IF;
  ELSIF l.sharers > 0 THEN
    SELECT s.until INTO ends FROM pawl.sharer s WHERE s.name = l.name AND s.lease = p_lease FOR NO KEY UPDATE;
    IF FOUND THEN
      code := (ends > at)::int;
      PERFORM 1 FROM pawl.sharer s WHERE s.name = l.name AND s.lease = p_lease FOR UPDATE SKIP LOCKED;
      IF FOUND THEN
        DELETE FROM pawl.sharer s WHERE s.name = l.name AND s.lease = p_lease;
        l.sharers := l.sharers - 1; freed := true;
      ELSE
        UPDATE pawl.sharer s SET until = least(s.until, at) WHERE s.name = l.name AND s.lease = p_lease;
        l.soonest := least(l.soonest, at);
      END IF;
    END IF;
  END IF;
END $$;

-- go admits waiters after a lease has ended, unless no lease may be granted now. It calls pawl.open, so its grants
-- are as safe as the grant of a request, whatever the session's settings are.
CREATE OR REPLACE FUNCTION pawl.go(l pawl.lock, at bigint, p_claim bigint, moved bool) RETURNS pawl.lock LANGUAGE plpgsql AS $$
DECLARE is_open record;
BEGIN
  is_open := pawl.open(pawl.timeline(), 0);
  IF is_open.code = 1 AND is_open.closed <= at THEN l := pawl.admit(pawl.sweep(l, at), at, p_claim, moved, NULL); END IF;
  RETURN l;
END $$;

-- release ends a lease, or with p_waiting removes a waiter from the queue. With p_doubt it leaves a tombstone,
-- because a request for the lease may be under way: that request then does nothing. release returns 1 if there was
-- something to end.
--
-- An ordinary release without waiters does not wait for the disk or a replica. The next grant waits for everything
-- that was committed before it. If a crash loses the release, the name is held until the lease expires, and no
-- client trusts that lease. synchronous_commit applies to the whole transaction, so release changes it only if the
-- transaction has changed nothing before.
CREATE OR REPLACE FUNCTION pawl.release(p_name text, p_lease text, p_claim bigint, p_waiting bool, p_doubt bool) RETURNS int LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE l pawl.lock; r record; at bigint; code int; ends bigint; waiting int; first bool := false;
  fresh bool := txid_current_if_assigned() IS NULL; -- before a row is locked
BEGIN
  -- The ordinary cases take as few statements as possible: the lease is exclusive and not guarded, and nobody else
  -- has locked its row.
  IF NOT p_waiting AND NOT p_doubt THEN
    SELECT k.until, k.waiters INTO ends, waiting
      FROM pawl.lock k WHERE k.name = p_name AND k.lease = p_lease AND k.sharers = 0 FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      at := pawl.us();
      IF waiting = 0 THEN
        IF fresh THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
        UPDATE pawl.lock SET lease = NULL, record = NULL, used = at WHERE name = p_name;
      ELSE
        SELECT * INTO l FROM pawl.lock WHERE name = p_name;
        l.lease := NULL; l.used := at;
        PERFORM pawl.put(pawl.go(l, at, p_claim, false));
      END IF;
      RETURN (ends > at)::int;
    END IF;
  END IF;
  IF (SELECT mode FROM pawl.epoch) = 'async' THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  SELECT * INTO l FROM pawl.lock WHERE name = p_name FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    IF NOT p_doubt THEN RETURN 0; END IF;
    l := pawl.row(p_name);
  END IF;
  at := pawl.us();
  r := pawl.finish(l, p_lease, at);
  l := r.l; code := r.code;
  IF p_waiting THEN
    first := p_lease = (SELECT w.lease FROM pawl.waiter w WHERE w.name = p_name ORDER BY w.place LIMIT 1);
    DELETE FROM pawl.waiter WHERE name = p_name AND lease = p_lease;
    IF FOUND THEN
      l.waiters := l.waiters - 1; code := 1;
    ELSE
      first := false;
    END IF;
  END IF;
  IF p_doubt THEN
    INSERT INTO pawl.ended(lease, until) VALUES (p_lease, at + 300000000) ON CONFLICT DO NOTHING;
  END IF;
  IF l.waiters > 0 AND (r.freed OR first) THEN l := pawl.go(l, at, p_claim, first); END IF;
  l.used := at;
  PERFORM pawl.put(l);
  RETURN code;
END $$;

-- release_many ends several exclusive leases. It skips locked rows. The result has one row for each lease that has
-- ended, with the code of pawl.release. Each other lease has to be released alone: it has waiters, is guarded, or
-- is not found. All releases here are ordinary ones, so release_many does not wait for the disk either.
CREATE OR REPLACE FUNCTION pawl.release_many(p_names text[], p_leases text[]) RETURNS TABLE (code int, lease text) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE rows tid[]; mine text[]; t bigint;
BEGIN
  IF txid_current_if_assigned() IS NULL THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  SELECT array_agg(m.ctid), array_agg(m.lease) INTO rows, mine FROM (SELECT l.ctid, l.lease FROM pawl.lock l
    WHERE l.name = ANY (p_names) AND l.lease = ANY (p_leases) AND l.waiters = 0 AND l.sharers = 0 FOR UPDATE SKIP LOCKED) m;
  t := pawl.us();
  RETURN QUERY UPDATE pawl.lock AS k SET lease = NULL, record = NULL, used = t
    FROM unnest(rows, mine) AS m(row, lease) WHERE k.ctid = m.row AND k.lease = m.lease
    RETURNING (k.until > t)::int, m.lease;
END $$;

-- downgrade ends the exclusive lease p_old and grants its name to the shared lease p_lease, in one step. Then it
-- admits the readers at the head of the queue. The result is like that of acquire, plus news. code is 1; 0 before
-- closed; -3 if p_lease has ended already; -7 if a transaction guards p_old; -8 if p_old has ended; or a code of
-- pawl.open.
CREATE OR REPLACE FUNCTION pawl.downgrade(p_timeline int, p_name text, p_old text, p_lease text, p_client text, p_record text, p_ttl bigint, p_claim bigint,
  OUT code int, OUT token bigint, OUT spare bigint, OUT waits bool, OUT at bigint, OUT wait_left bigint, OUT rank int, OUT closed bigint, OUT news text, OUT place bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE l pawl.lock; is_open record;
BEGIN
  is_open := pawl.open(p_timeline, p_ttl);
  code := is_open.code; token := is_open.max_ttl;
  IF code <> 1 THEN RETURN; END IF;
  SELECT * INTO l FROM pawl.lock WHERE name = p_name FOR NO KEY UPDATE;
  at := pawl.us(); closed := is_open.closed - at;
  SELECT d.news INTO news FROM pawl.ended d WHERE d.lease = p_old;
  code := CASE WHEN EXISTS (SELECT FROM pawl.ended WHERE lease = p_lease) THEN -3
    WHEN l.lease IS DISTINCT FROM p_old OR l.until <= at THEN -8 WHEN closed > 0 THEN 0 ELSE 1 END;
  IF code <> 1 THEN RETURN; END IF;
  PERFORM 1 FROM pawl.lock WHERE name = p_name FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    code := -7;
    RETURN;
  END IF;
  l := pawl.give(l, at, p_ttl, p_lease, p_client, -1, p_record);
  token := l.token; waits := l.waiters > 0;
  IF l.waiters > 0 THEN l := pawl.go(l, at, p_claim, false); END IF;
  PERFORM pawl.put(l);
END $$;

-- break ends the lease of another client, and sends a message to that client. code is 1. If that lease does not
-- hold the name, code is 0, and holders lists the holders.
CREATE OR REPLACE FUNCTION pawl.break(p_name text, p_lease text, p_claim bigint, p_news text, OUT code int, OUT holders json) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE l pawl.lock; at bigint; victim text; r record;
BEGIN
  SELECT * INTO l FROM pawl.lock WHERE name = p_name FOR NO KEY UPDATE;
  code := 0; holders := '[]';
  IF NOT FOUND THEN RETURN; END IF;
  at := pawl.us();
  victim := CASE WHEN l.lease = p_lease THEN l.client ELSE (SELECT s.client FROM pawl.sharer s WHERE s.name = p_name AND s.lease = p_lease) END;
  r := pawl.finish(l, p_lease, at);
  l := r.l; code := r.code;
  IF l.waiters > 0 AND r.freed THEN l := pawl.go(l, at, p_claim, false); END IF;
  PERFORM pawl.put(l);
  IF code = 0 THEN
    holders := pawl.holders(p_name);
    RETURN;
  END IF;
  INSERT INTO pawl.ended(lease, until, news) SELECT p_lease, at + greatest(max(e.max_ttl), 300000000), p_news FROM pawl.epoch e
    ON CONFLICT (lease) DO UPDATE SET news = excluded.news, until = excluded.until;
  PERFORM pg_notify('pawl:' || victim, 'lost ' || p_lease || ' ' || left(p_news, 4000));
END $$;

-- guard runs in transactions of the user. It fails unless the lease holds the name and has the given token. If it
-- succeeds, the name is granted to no other lease until the transaction has ended.
--
-- A rollback to a savepoint would undo the locks that were taken after it, so guard refuses to run behind a
-- savepoint. It recognizes one by its transaction id, which a savepoint gets once something was locked after it.
-- But if the transaction has the mark already, it has guarded the lease before the savepoint, and guard succeeds.
-- (If several transactions have locked the row, the row does not show whose the locks are.)
CREATE OR REPLACE FUNCTION pawl.guard(p_name text, p_lease text, p_token bigint) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE ends bigint;
BEGIN
  SELECT l.until INTO ends FROM pawl.lock l WHERE l.name = p_name AND l.lease = p_lease AND l.tok = p_token FOR KEY SHARE;
  IF NOT FOUND THEN
    SELECT s.until INTO ends FROM pawl.sharer s WHERE s.name = p_name AND s.lease = p_lease AND s.token = p_token FOR KEY SHARE;
  END IF;
  IF ends IS NULL OR ends <= pawl.us() THEN
    RAISE 'the lease on % with token % has ended', p_name, p_token USING ERRCODE = 'PAWL1';
  END IF;
  IF (SELECT count(*) FILTER (WHERE k.locktype = 'transactionid' AND k.mode = 'ExclusiveLock') > 1
      AND NOT bool_or(k.locktype = 'advisory' AND k.objsubid = 1 AND k.mode = 'ShareLock' AND k.classid::bigint << 32 | k.objid::bigint = pawl.mark(p_lease))
      FROM pg_lock_status() k WHERE k.pid = pg_backend_pid()) THEN
    RAISE 'the lease on % would no longer be guarded after a rollback to the savepoint: call Guard on the outermost transaction, before any savepoint', p_name USING ERRCODE = 'PAWL2';
  END IF;
  PERFORM pg_advisory_xact_lock_shared(pawl.mark(p_lease));
END $$;

-- look returns names as JSON, one in a row: p_name alone, or if it is empty, the names that begin with p_prefix and
-- have a holder or a waiter. The leases are as in pawl.holders. look reads guards once, and only if a lease has expired. Only
-- one half of the UNION in l runs. The planner counts the cost of both, and with jit would compile the query on
-- each call.
CREATE OR REPLACE FUNCTION pawl.look(p_name text, p_prefix text) RETURNS TABLE (info json) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  WITH guards AS MATERIALIZED (SELECT * FROM pawl.guards())
  SELECT json_build_object('name', l.name, 'token', l.token, 'at', t.at,
    'holders', (SELECT coalesce(json_agg(h ORDER BY h.token), '[]') FROM (
        SELECT a.*, CASE WHEN a.until <= t.at THEN (SELECT g.tx FROM guards g WHERE g.mark = pawl.mark(a.lease)) END AS tx FROM (
          SELECT l.lease, l.tok AS token, l.until, l.since, l.record, 0 AS kind WHERE l.lease IS NOT NULL
          UNION ALL SELECT s.lease, s.token, s.until, s.since, s.record, s.kind FROM pawl.sharer s WHERE s.name = l.name) a) h
        WHERE h.until > t.at OR h.tx IS NOT NULL),
    'waiters', (SELECT coalesce(json_agg(json_build_object('lease', w.lease, 'since', w.since, 'record', w.record, 'kind', w.kind) ORDER BY w.place), '[]')
        FROM pawl.waiter w WHERE w.name = l.name))
  FROM (SELECT pawl.us() AS at) t, LATERAL (
    SELECT * FROM pawl.lock WHERE name = p_name
    UNION ALL SELECT * FROM pawl.lock k WHERE p_name = '' AND starts_with(k.name, p_prefix)
      AND (k.lease IS NOT NULL AND (k.until > t.at OR pawl.mark(k.lease) IN (SELECT g.mark FROM guards g)) OR k.sharers > 0 OR k.waiters > 0)) l
  ORDER BY l.name
$$;

-- describe returns the settings on which clients have agreed, and the time for which no lease is granted yet. code
-- is 1, or -1 if there is no record of this run.
CREATE OR REPLACE FUNCTION pawl.describe(p_timeline int, OUT code int, OUT max_ttl bigint, OUT set_by text, OUT remaining bigint, OUT why text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN pawl.present(e, p_timeline) THEN 1 ELSE -1 END, m.max_ttl, m.set_by, e.closed - pawl.us(), e.why FROM pawl.meta m LEFT JOIN pawl.epoch e ON true
$$;

-- examine returns the state of the server. snapshot is the number of transactions that have begun since the oldest
-- snapshot. holder says who keeps that snapshot, as far as the user may see it.
CREATE OR REPLACE FUNCTION pawl.examine(OUT version text, OUT up bigint, OUT at bigint, OUT standby bool, OUT fsync bool, OUT pages bool,
  OUT standbys text, OUT connections bigint, OUT most bigint, OUT snapshot bigint, OUT holder text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT current_setting('server_version'), (extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) * 1000000)::bigint, pawl.us(),
    pg_is_in_recovery(), current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', current_setting('synchronous_standby_names'),
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), current_setting('max_connections')::bigint, o.age::bigint, o.who
  FROM (
    SELECT age(a.backend_xmin) AS age, concat('process ', a.pid, ' of ' || nullif(a.application_name, '')) AS who
      FROM pg_stat_activity a WHERE a.backend_xmin IS NOT NULL AND (a.datname IS NULL OR a.datname = current_database())
    UNION ALL SELECT age(s.xmin), concat('replication slot ', s.slot_name) FROM pg_replication_slots s WHERE s.xmin IS NOT NULL
    UNION ALL SELECT age(x.transaction), concat('prepared transaction ', x.gid) FROM pg_prepared_xacts x WHERE x.database = current_database()
    UNION ALL SELECT 0, '' ORDER BY 1 DESC LIMIT 1) o
$$;

-- tidy removes rows that are no longer needed: names that were not used for p_keep, waiters whose client is gone,
-- and old tombstones. It returns the last name that it has read, or null at the end.
CREATE OR REPLACE FUNCTION pawl.tidy(p_after text, p_keep bigint, p_rows int) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE last text; at bigint := pawl.us(); l pawl.lock; n int := 0; top bigint := 0;
BEGIN
  DELETE FROM pawl.ended WHERE until < at;
  PERFORM 1 FROM pawl.meta FOR NO KEY UPDATE; -- before the rows, as in bind
  at := pawl.us(); -- the lock may have been waited for
  FOR l IN SELECT * FROM pawl.lock WHERE name > p_after ORDER BY name LIMIT p_rows LOOP
    n := n + 1; last := l.name;
    IF l.used < at - p_keep OR l.waiters > 0 AND l.used < at - 60000000 THEN
      SELECT * INTO l FROM pawl.lock WHERE name = last FOR UPDATE SKIP LOCKED;
      IF FOUND THEN
        l := pawl.sweep(l, at);
        IF l.waiters > 0 THEN l := pawl.go(l, at, 1000000, false); END IF;
        IF l.lease IS NULL AND l.sharers = 0 AND l.waiters = 0 AND l.used < at - p_keep THEN
          DELETE FROM pawl.lock WHERE name = last;
          top := greatest(top, l.token);
        ELSE
          PERFORM pawl.put(l);
        END IF;
      END IF;
    END IF;
  END LOOP;
  UPDATE pawl.meta SET floor = top WHERE floor < top;
  RETURN CASE WHEN n = p_rows THEN last END;
END $$;

INSERT INTO pawl.meta(version, timeline) VALUES (1, pawl.timeline()) ON CONFLICT DO NOTHING;
