/**
 * Every lane by name, loaded when it is asked for: a library that is not installed fails its own contestants only. By
 * name, because a pick-up between processes opens the same lane twice.
 */
import type { OpenOptions } from 'signalbox'
import type { Engine } from './ground.ts'
import type { OpenLane } from './lane.ts'

interface KnownLane {
  readonly engine: Engine
  load(): Promise<OpenLane>
}

/**
 * Signalbox tuned: as many in flight and as much held ready as helps no-op handlers. With nothing set, nothing is set.
 */
export const tuned = { concurrency: 100, prefetch: 1_000 } as const

/** Without a row of the worker and without counts over time. */
export const unseen: OpenOptions = { series: false, jobs: { membership: false } }

export type LaneName =
  | 'signalbox'
  | 'signalbox tuned'
  | 'signalbox unseen'
  | 'signalbox tuned, unseen'
  | 'signalbox 50'
  | 'signalbox mariadb'
  | 'signalbox sqlite'
  | 'graphile-worker'
  | 'graphile-worker tuned'
  | 'graphile-worker 50'
  | 'pg-boss tuned'
  | 'BullMQ'
  | 'BullMQ tuned'
  | 'BullMQ on Postgres'
  | 'plain rows 50'
  | 'plain rows tuned'
  | 'raw postgres'
  | 'raw mariadb'
  | 'raw sqlite'

export const lanes: Readonly<Record<LaneName, KnownLane>> = {
  signalbox: {
    engine: 'postgres',
    load: async () => (await import('./signalbox.ts')).signalboxLane({}),
  },
  'signalbox tuned': {
    engine: 'postgres',
    load: async () => (await import('./signalbox.ts')).signalboxLane(tuned),
  },
  'signalbox unseen': {
    engine: 'postgres',
    load: async () => (await import('./signalbox.ts')).signalboxLane({}, undefined, unseen),
  },
  'signalbox tuned, unseen': {
    engine: 'postgres',
    load: async () => (await import('./signalbox.ts')).signalboxLane(tuned, undefined, unseen),
  },
  'signalbox 50': {
    engine: 'postgres',
    load: async () => (await import('./signalbox.ts')).signalboxLane({ concurrency: 50 }),
  },
  'signalbox mariadb': {
    engine: 'mariadb',
    load: async () => (await import('./signalbox.ts')).signalboxLane(tuned),
  },
  'signalbox sqlite': {
    engine: 'sqlite',
    load: async () => (await import('./signalbox.ts')).signalboxLane(tuned),
  },
  'graphile-worker': {
    engine: 'postgres',
    load: async () => (await import('./graphile.ts')).graphileLane('default'),
  },
  'graphile-worker tuned': {
    engine: 'postgres',
    load: async () => (await import('./graphile.ts')).graphileLane('tuned'),
  },
  'graphile-worker 50': {
    engine: 'postgres',
    load: async () => (await import('./graphile.ts')).graphileLane('fifty'),
  },
  'pg-boss tuned': {
    engine: 'postgres',
    load: async () => (await import('./pg-boss.ts')).pgBossLane,
  },
  BullMQ: {
    engine: 'redis',
    load: async () => (await import('./bullmq.ts')).bullRedisLane('default'),
  },
  'BullMQ tuned': {
    engine: 'redis',
    load: async () => (await import('./bullmq.ts')).bullRedisLane('tuned'),
  },
  'BullMQ on Postgres': {
    engine: 'postgres',
    load: async () => (await import('./bullmq.ts')).bullPostgresLane('tuned'),
  },
  'plain rows 50': {
    engine: 'postgres',
    load: async () => (await import('./fleet/plain-rows.ts')).plainRowsLane(50, 50),
  },
  'plain rows tuned': {
    engine: 'postgres',
    load: async () =>
      (await import('./fleet/plain-rows.ts')).plainRowsLane(tuned.concurrency, tuned.prefetch),
  },
  'raw postgres': {
    engine: 'postgres',
    load: async () => (await import('./raw/raw-postgres.ts')).rawPostgresLane,
  },
  'raw mariadb': {
    engine: 'mariadb',
    load: async () => (await import('./raw/raw-mariadb.ts')).rawMariadbLane,
  },
  'raw sqlite': {
    engine: 'sqlite',
    load: async () => (await import('./raw/raw-sqlite.ts')).rawSqliteLane,
  },
}
