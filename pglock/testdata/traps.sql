-- SPDX-License-Identifier: Apache-2.0
-- A copy of each function and operator of pg_catalog in the schema SCHEMA, and some that are
-- exact where pg_catalog has none. Each counts its calls in the sequence trap.sprung, and fails.
SET search_path = pg_catalog, pg_temp;
DO $do$
DECLARE
  f record;
  body text := $$ LANGUAGE plpgsql SET search_path = pg_catalog AS $f$ BEGIN PERFORM nextval('trap.sprung'); RAISE 'trapped: %s'; END $f$ $$;
  -- Types that no function in PL/pgSQL can take or return.
  odd oid[] := ARRAY(SELECT oid FROM pg_type WHERE typtype = 'p' AND typname !~ '^(any(element|array|nonarray|enum|range)|record|void)$');
BEGIN
  FOR f IN
    SELECT p.proname AS name, oidvectortypes(p.proargtypes) AS args, CASE WHEN p.proretset THEN 'SETOF ' ELSE '' END || p.prorettype::regtype AS result
      FROM pg_proc p
      WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.prorettype <> ALL (odd)
        AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) a WHERE a = ANY (odd) OR a = 'void'::regtype)
    UNION ALL VALUES
      ('hashtextextended', 'text, int', 'bigint'),
      ('concat_ws', 'text, text, text, bigint, bigint, bigint, int, bigint, int, text', 'text'),
      ('concat_ws', 'text, text, text, int', 'text'),
      ('sums', 'bigint, bigint', 'bigint'),
      ('counts', 'bigint', 'bigint')
  LOOP
    EXECUTE format('CREATE FUNCTION SCHEMA.%I(%s) RETURNS %s' || body, f.name, f.args, f.result, f.name);
  END LOOP;
  CREATE AGGREGATE SCHEMA.max(bigint) (SFUNC = SCHEMA.sums, STYPE = bigint, INITCOND = 0);
  CREATE AGGREGATE SCHEMA.min(bigint) (SFUNC = SCHEMA.sums, STYPE = bigint, INITCOND = 0);
  CREATE AGGREGATE SCHEMA.count(*) (SFUNC = SCHEMA.counts, STYPE = bigint, INITCOND = 0);
  FOR f IN
    SELECT row_number() OVER () AS n, o.* FROM (
      SELECT o.oprname AS op, o.oprleft::regtype AS l, o.oprright::regtype AS r, o.oprresult::regtype AS result
        FROM pg_operator o WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprleft <> 0
          AND o.oprleft <> ALL (odd) AND o.oprright <> ALL (odd) AND o.oprresult <> ALL (odd)
      UNION ALL VALUES ('*', 'numeric'::regtype, 'int'::regtype, 'numeric'::regtype), ('||', 'text', 'bigint', 'text')) o
  LOOP
    EXECUTE format('CREATE FUNCTION SCHEMA.operator_%s(%s, %s) RETURNS %s' || body, f.n, f.l, f.r, f.result, replace(f.op, '%', '%%'));
    EXECUTE format('CREATE OPERATOR SCHEMA.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = SCHEMA.operator_%s)', f.op, f.l, f.r, f.n);
  END LOOP;
END $do$;
