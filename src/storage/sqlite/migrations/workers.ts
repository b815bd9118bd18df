/**
 * Workers as members of the fleet: one leased row each. `session` is of one run of a worker, `boot` of its process.
 * `running` has the ages of jobs at `seen_at`. Lists are JSON; the large `kind_schemas` come last.
 */
export const workers: readonly string[] = [
  `CREATE TABLE fleet_worker (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    worker_id TEXT NOT NULL,
    session TEXT NOT NULL,
    boot TEXT NOT NULL,
    via TEXT NOT NULL,
    host TEXT,
    pid INTEGER,
    mode TEXT NOT NULL,
    wanted TEXT NOT NULL,
    wanted_grace_ms INTEGER,
    concurrency INTEGER,
    running_count INTEGER,
    release_name TEXT,
    version TEXT,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    lease_ends_at INTEGER NOT NULL,
    running TEXT NOT NULL,
    queues TEXT NOT NULL,
    kinds TEXT,
    kind_schemas TEXT NOT NULL,
    PRIMARY KEY (namespace, id)
  ) STRICT`,
]
