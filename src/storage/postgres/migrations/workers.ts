/** Workers as members of the fleet, as on SQLite (sqlite/migrations/workers.ts). */
export function workers(schema: string): readonly string[] {
  const text = 'text COLLATE "C"'
  return [
    // Renewals change no indexed column, and find room on their own page.
    `CREATE TABLE ${schema}.fleet_worker (
  namespace ${text} NOT NULL,
  id ${text} NOT NULL,
  worker_id text NOT NULL,
  session text NOT NULL,
  boot text NOT NULL,
  via text NOT NULL,
  host text,
  pid bigint,
  mode text NOT NULL,
  wanted text NOT NULL,
  wanted_grace_ms bigint,
  concurrency integer,
  running_count integer,
  release_name text,
  version text,
  started_at bigint NOT NULL,
  seen_at bigint NOT NULL,
  lease_ends_at bigint NOT NULL,
  running text NOT NULL,
  queues text NOT NULL,
  kinds text,
  kind_schemas text NOT NULL,
  PRIMARY KEY (namespace, id)
) WITH (fillfactor = 50)`,
  ]
}
