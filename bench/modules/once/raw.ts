/**
 * The limits: the least that takes fresh keys. In Redis a `SET NX` with a time to live for each, or a script that does
 * this for one; in SQL one insert of all rows into Signalbox's own table, with its indexes. They may leave out features
 * (take-overs, results, fingerprints, tokens that rise), never durability or that a key is taken once.
 */
import { DatabaseSync } from 'node:sqlite'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
import { migrationsFor } from '../../../src/storage/postgres/schema.ts'
import { migrations } from '../../../src/storage/sqlite/schema.ts'
import type { ClaimLane } from './lane.ts'

const leaseMs = 30_000
const keepMs = 86_400_000
/** As long as Signalbox remembers one that is never ended. */
const restMs = leaseMs + keepMs
const nonce = '0123456789abcdef'

/** One pipeline for all keys. */
export async function rawPipeline(url: string): Promise<ClaimLane> {
  const redis = new Redis(url)
  return {
    async claimMany(keys) {
      const pipeline = redis.pipeline()
      for (const key of keys) pipeline.set(`raw:${key}`, nonce, 'PX', restMs, 'NX')
      const replies = await pipeline.exec()
      if (!replies?.every(([, reply]) => reply === 'OK')) throw new Error('a fresh key was taken')
    },
    async [Symbol.asyncDispose]() {
      redis.disconnect()
    },
  }
}

/** One script for one key. */
export async function rawScript(url: string): Promise<ClaimLane> {
  const redis = new Redis(url)
  redis.defineCommand('take', {
    numberOfKeys: 1,
    lua: `if redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then return 1 end return 0`,
  })
  const { take } = redis as unknown as { take(key: string, token: string, restMs: number): Promise<number> }
  return {
    async claimMany(keys) {
      const replies = await Promise.all(keys.map((key) => take.call(redis, `raw:${key}`, nonce, restMs)))
      if (!replies.every((reply) => reply === 1)) throw new Error('a fresh key was taken')
    },
    async [Symbol.asyncDispose]() {
      redis.disconnect()
    },
  }
}

/** A statement for `count` rows, each a commit on disk. */
export async function rawSqlite(url: string, size: number): Promise<ClaimLane> {
  const db = new DatabaseSync(url.slice('sqlite:'.length))
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  for (const { statements } of migrations) for (const sql of statements) db.exec(sql)
  const row = `('default', 'once', ?, 'running', 'at-least-once', 1, ?, ?, NULL, NULL, ?, ${keepMs}, ?)`
  const insert = db.prepare(`
    INSERT INTO once_guard (namespace, space, guard_key, status, mode, attempt, token_no, token_nonce, fingerprint,
      result, claimed_at, keep_ms, ends_at)
    VALUES ${Array(size).fill(row).join(', ')} ON CONFLICT DO NOTHING`)
  return {
    async claimMany(keys) {
      const now = Date.now()
      const values = keys.flatMap((key) => [key, now * 1_000, nonce, now, now + leaseMs])
      if (insert.run(...values).changes !== keys.length) throw new Error('a fresh key was taken')
    },
    async [Symbol.asyncDispose]() {
      db.close()
    },
  }
}

/** A statement for all rows, with as many connections as there are callers. */
export async function rawPostgres(url: string, callers: number): Promise<ClaimLane> {
  const pool = new Pool({ connectionString: url, max: callers })
  for (const { statements } of migrationsFor('public')) for (const sql of statements) await pool.query(sql)
  const text = `
    INSERT INTO once_guard (namespace, space, guard_key, status, mode, attempt, token_no, token_nonce, fingerprint,
      result, claimed_at, keep_ms, ends_at)
    SELECT 'default', 'once', g.key, 'running', 'at-least-once', 1, c.now * 1000, g.nonce, NULL, NULL, c.now, ${keepMs},
      c.now + ${leaseMs}
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) c,
      unnest($1::text[], $2::text[]) g (key, nonce)
    ON CONFLICT DO NOTHING`
  return {
    async claimMany(keys) {
      const values = [keys, keys.map(() => nonce)]
      const { rowCount } = await pool.query({ name: 'claim', text, values })
      if (rowCount !== keys.length) throw new Error('a fresh key was taken')
    },
    [Symbol.asyncDispose]: () => pool.end(),
  }
}
