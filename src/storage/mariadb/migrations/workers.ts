/** Workers as members of the fleet, as on SQLite (sqlite/migrations/workers.ts). */
export const workers: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS fleet_worker (
  namespace VARCHAR(191) NOT NULL,
  id VARCHAR(191) NOT NULL,
  worker_id VARCHAR(191) NOT NULL,
  session VARCHAR(64) NOT NULL,
  boot VARCHAR(64) NOT NULL,
  via ENUM ('library', 'remote', 'http') NOT NULL,
  host VARCHAR(191) NULL,
  pid BIGINT NULL,
  mode ENUM ('running', 'quiet', 'stopping') NOT NULL,
  wanted ENUM ('run', 'quiet', 'stop') NOT NULL,
  wanted_grace_ms BIGINT NULL,
  concurrency INTEGER NULL,
  running_count INTEGER NULL,
  release_name VARCHAR(191) NULL,
  version VARCHAR(64) NULL,
  started_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  lease_ends_at BIGINT NOT NULL,
  running MEDIUMTEXT NOT NULL,
  queues MEDIUMTEXT NOT NULL,
  kinds MEDIUMTEXT NULL,
  kind_schemas MEDIUMTEXT NOT NULL,
  PRIMARY KEY (namespace, id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
]
