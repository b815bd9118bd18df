/** The limits: the least that takes and gives back a lock durably in SQLite, or atomically in Redis. */
import { DatabaseSync } from 'node:sqlite'
import { Redis } from 'ioredis'
import type { Contestant } from '../../case.ts'
import { groundUrl } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { type LockLane, measurePairs } from './lane.ts'

/** Pairs in commits of a hundred, with `synchronous=FULL`: two statements a pair and no rules. */
export const rawSqlite: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'sqlite')
  const db = new DatabaseSync(place.url.slice('sqlite:'.length))
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  db.exec(
    'CREATE TABLE lock (name TEXT PRIMARY KEY, holder TEXT, token INTEGER, ends INTEGER) STRICT, WITHOUT ROWID',
  )
  const take = db.prepare(
    `INSERT INTO lock VALUES (?1, ?2, 1, ?3) ON CONFLICT (name) DO UPDATE
     SET holder = excluded.holder, token = token + 1, ends = excluded.ends WHERE holder IS NULL RETURNING token`,
  )
  const give = db.prepare('UPDATE lock SET holder = NULL WHERE name = ?1 AND token = ?2')
  const batch = () => {
    db.exec('BEGIN IMMEDIATE')
    for (let caller = 0; caller < 100; caller++) {
      const { token } = take.get(`key-${caller}`, 'bench', Date.now() + 30_000) as { token: number }
      give.run(`key-${caller}`, token)
    }
    db.exec('COMMIT')
  }
  const batches = conditions.quick ? 300 : 1_500
  for (let warm = 0; warm < 50; warm++) batch()
  const startedAt = performance.now()
  for (let done = 0; done < batches; done++) batch()
  const rate = (batches * 100) / ((performance.now() - startedAt) / 1_000)
  db.close()
  return { rate }
}

/** Two small scripts over one connection: take if free, give back if mine. */
export const rawRedis: Contestant = async (conditions) => {
  const redis = new Redis(groundUrl(conditions, 'redis'))
  redis.defineCommand('take', {
    numberOfKeys: 1,
    lua: `if redis.call('exists', KEYS[1]) == 1 then return 0 end
          redis.call('hset', KEYS[1], 'holder', ARGV[1], 'token', ARGV[2]) redis.call('pexpire', KEYS[1], 30000) return 1`,
  })
  redis.defineCommand('give', {
    numberOfKeys: 1,
    lua: `if redis.call('hget', KEYS[1], 'holder') == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
  })
  const scripts = redis as unknown as {
    take(key: string, holder: string, token: number): Promise<number>
    give(key: string, holder: string): Promise<number>
  }
  const lane: LockLane = {
    async pair(name) {
      if ((await scripts.take(`raw:${name}`, 'bench', 1)) !== 1) throw new Error(`${name} was taken`)
      await scripts.give(`raw:${name}`, 'bench')
    },
    hold: () => Promise.reject(new Error('not measured')),
    async [Symbol.asyncDispose]() {
      redis.disconnect()
    },
  }
  await using _lane = lane
  return await measurePairs(lane, 100, conditions.quick ? 20_000 : 60_000)
}
