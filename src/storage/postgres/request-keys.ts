import { setTimeout as sleep } from 'node:timers/promises'
import type { PoolClient, QueryResult } from 'pg'
import { isSignalboxError } from '../../core/errors.ts'
import type { JobStore } from '../../jobs/index.ts'
import type { RequestKey } from '../backend.ts'
import {
  createKeyedJobs,
  decodeAnswer,
  encodeAnswer,
  keyInProgress,
  keyMismatch,
  leavesKey,
} from '../request-key.ts'
import { nowMs } from './connection/columns.ts'
import type { Connections, Statement } from './connection/connection.ts'
import { isConnectionLoss } from './connection/failures.ts'
import { PostgresJobs } from './jobs/jobs.ts'
import type { Space } from './jobs/namespace-memory.ts'
import { Pinned } from './jobs/pinned.ts'

/**
 * Requests that must not be done twice: one transaction holds the key, its effect and its answer.
 *
 *     BEGIN, lock, look ──▶ the call itself ──▶ key and answer, COMMIT
 *
 * The lock is advisory, of the transaction, and tried rather than waited for: whoever does not get it and sees no answer
 * has met a call that is under way. It is taken before the look, in a statement of its own, so that the look sees what
 * the last one to have it committed.
 *
 * A commit whose answer was lost can be asked for again, unlike any other: the key is there, or nothing is.
 */
export class Keys {
  readonly #connections: Connections
  readonly #schema: string
  readonly #statements: KeyStatements

  constructor(connections: Connections, schema: string) {
    this.#connections = connections
    this.#schema = schema
    this.#statements = keyStatements(schema)
  }

  /** The jobs of a namespace for one request. */
  view(space: Space, jobs: JobStore, key: RequestKey): JobStore {
    return createKeyedJobs(jobs, (method, args) => this.#once(space, key, method, args))
  }

  async prune(limit: number): Promise<number> {
    const { rowCount } = await this.#connections.run(this.#statements.prune, [limit])
    return rowCount ?? 0
  }

  async #once(
    space: Space,
    key: RequestKey,
    method: keyof JobStore,
    args: readonly unknown[],
  ): Promise<unknown> {
    const call = { space, key, method, args }
    const use = method === 'renew' ? 'useBeat' : 'use'
    const until = performance.now() + lostCommitMs
    let wasLost = false
    for (let pauseMs = 20; ; pauseMs *= 2) {
      const outcome = { isCommitting: false }
      try {
        return await this.#connections[use]((client) => this.#perform(client, call, outcome))
      } catch (error) {
        const isLost = isSignalboxError(error, 'store_unavailable') && isConnectionLoss(error.cause)
        if (isLost && outcome.isCommitting) {
          wasLost = true
          // What it put in line, nobody here was told of.
          space.cursors.forget()
        }
        // The server may take a moment to notice that the connection is gone, and holds the lock until then.
        const isAgain = wasLost && (isLost || isSignalboxError(error, 'in_progress'))
        if (!isAgain || performance.now() + pauseMs > until) throw error
      }
      await sleep(pauseMs)
    }
  }

  /** One try, on a connection that is given back outside any transaction. */
  async #perform(client: PoolClient, call: KeyedCall, outcome: { isCommitting: boolean }): Promise<unknown> {
    const { space, method, args } = call
    outcome.isCommitting = false
    try {
      const kept = await this.#begin(client, call)
      if (kept) {
        await client.query('ROLLBACK')
        return decodeAnswer(kept.answer)
      }
      const pinned = new Pinned(this.#connections, client)
      const jobs = new PostgresJobs(this.#connections, space, pinned)
      const answer = await Reflect.apply(jobs[method] as () => Promise<unknown>, jobs, args)
      outcome.isCommitting = true
      await this.#commit(client, call, leavesKey(method, answer) ? encodeAnswer(answer) : undefined)
      pinned.committed()
      return answer
    } catch (error) {
      await client.query('ROLLBACK').catch(() => undefined)
      throw error
    }
  }

  /** Begins, with the lock; answers what is kept already. */
  async #begin(client: PoolClient, { space: { namespace }, key }: KeyedCall): Promise<KeptRow | undefined> {
    const { caller, key: name, fingerprint } = key
    const lockName = JSON.stringify([this.#schema, namespace, caller, name])
    const [, locked, found] = await Promise.all([
      client.query(begin),
      this.#connections.send<{ got: boolean }>(client, this.#statements.lock, [lockName]),
      this.#connections.send<KeptRow>(client, this.#statements.find, [namespace, caller, name]),
    ])
    const [kept] = found.rows
    if (kept && kept.fingerprint !== fingerprint) throw keyMismatch(name)
    if (!kept && !locked.rows[0]!.got) throw keyInProgress(name)
    return kept
  }

  async #commit(client: PoolClient, { space, key }: KeyedCall, answer: string | undefined): Promise<void> {
    const { caller, key: name, fingerprint, keepMs } = key
    const values = [space.namespace, caller, name, fingerprint, answer, keepMs]
    const writing: Promise<QueryResult | undefined> =
      answer === undefined
        ? Promise.resolve(undefined)
        : this.#connections.send(client, this.#statements.keep, values)
    // COMMIT goes out at once: behind a statement that failed it is a rollback.
    const [, committed] = await Promise.all([writing, client.query('COMMIT')])
    if (committed.command !== 'COMMIT') throw new Error(`COMMIT was answered with ${committed.command}`)
  }
}

interface KeyedCall {
  readonly space: Space
  readonly key: RequestKey
  readonly method: keyof JobStore
  readonly args: readonly unknown[]
}

interface KeptRow {
  readonly fingerprint: string
  readonly answer: string
}

/**
 * The isolation is said outright: the look must see what was committed before it, whatever the default is. And a process
 * that stands still must not keep others from the rows it has: the server ends its transaction.
 */
const begin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '20s'"

/** How long to ask again for a commit whose answer was lost. */
const lostCommitMs = 10_000

type KeyStatements = Record<'lock' | 'find' | 'keep' | 'prune', Statement>

function keyStatements(s: string): KeyStatements {
  return {
    lock: {
      name: 'sb_key_lock',
      text: `SELECT pg_try_advisory_xact_lock(hashtextextended('signalbox key ' || $1::text, 0)) AS got`,
    },
    find: {
      name: 'sb_key_find',
      text: `
SELECT fingerprint, answer FROM ${s}.request_key
WHERE namespace = $1 AND caller = $2 AND key = $3 AND expires_at > ${nowMs}`,
    },
    keep: {
      name: 'sb_key_keep',
      text: `
INSERT INTO ${s}.request_key (namespace, caller, key, fingerprint, answer, created_at, expires_at)
SELECT $1, $2, $3, $4, $5, clock.now, clock.now + $6::bigint FROM (SELECT ${nowMs} AS now) clock
-- One whose time is over.
ON CONFLICT (namespace, caller, key) DO UPDATE SET fingerprint = excluded.fingerprint, answer = excluded.answer,
  created_at = excluded.created_at, expires_at = excluded.expires_at`,
    },
    prune: {
      name: 'sb_key_prune',
      text: `
DELETE FROM ${s}.request_key k USING (
  SELECT namespace, caller, key FROM ${s}.request_key
  WHERE expires_at <= (SELECT ${nowMs}) ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
) old WHERE k.namespace = old.namespace AND k.caller = old.caller AND k.key = old.key`,
    },
  }
}
