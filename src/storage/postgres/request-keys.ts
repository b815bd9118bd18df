import type { PoolClient, QueryResult } from 'pg'
import type { JobStore } from '../../jobs/index.ts'
import type { RequestKey } from '../backend.ts'
import { createKeyedJobs, decodeAnswer, encodeAnswer, leavesKey } from '../request-key.ts'
import {
  type AttemptState,
  checkAnswer,
  findAnswer,
  keepAnswer,
  retryLostCommit,
} from '../sql/request-keys.ts'
import type { Connections } from './connection/connection.ts'
import type { PostgresDatabase } from './connection/database.ts'
import { isAnswerLost } from './connection/failures.ts'
import { Pinned } from './connection/sender.ts'
import { createPostgresJobs } from './jobs/jobs.ts'
import type { Space } from './jobs/space.ts'

/**
 * Executes requests with a key once: one transaction writes the key, the effect and the answer.
 *
 *     BEGIN, lock, check ──▶ the call ──▶ key and answer, COMMIT
 *
 * The lock is an advisory lock of the transaction, and no call waits for it. If a call gets no lock and finds no
 * answer, another call with the same key is running. The lock is a separate statement before the check, so the check
 * sees the commit of the last holder.
 */
export class RequestKeys {
  readonly #connections: Connections
  readonly #database: PostgresDatabase
  readonly #schema: string

  constructor(connections: Connections, database: PostgresDatabase, schema: string) {
    this.#connections = connections
    this.#database = database
    this.#schema = schema
  }

  /** The jobs of a namespace for one request. */
  view(space: Space, jobs: JobStore, key: RequestKey): JobStore {
    return createKeyedJobs(jobs, (method, args) => this.#once({ space, key, method, args }))
  }

  #once(call: KeyedCall): Promise<unknown> {
    const use = call.method === 'renew' ? 'useHeartbeat' : 'use'
    return retryLostCommit(async (state) => {
      try {
        return await this.#connections[use]((client) => this.#perform(client, call, state))
      } catch (error) {
        // A lost commit may have added jobs that this process does not know.
        if (isAnswerLost(error) && state.isCommitting) call.space.positions.forget()
        throw error
      }
    }, isAnswerLost)
  }

  /** One try. It returns the connection outside any transaction. */
  async #perform(client: PoolClient, call: KeyedCall, state: AttemptState): Promise<unknown> {
    const { space, method, args } = call
    state.isCommitting = false
    try {
      const kept = await this.#begin(client, call)
      if (kept !== undefined) {
        await client.query('ROLLBACK')
        return decodeAnswer(kept)
      }
      const pinned = new Pinned(this.#connections, client)
      const jobs = createPostgresJobs(this.#connections, space, pinned)
      const answer = await Reflect.apply(jobs[method] as () => Promise<unknown>, jobs, args)
      state.isCommitting = true
      await this.#commit(client, call, leavesKey(method, answer) ? encodeAnswer(answer) : undefined)
      pinned.committed()
      return answer
    } catch (error) {
      await client.query('ROLLBACK').catch(() => undefined)
      throw error
    }
  }

  /** Begins the transaction and takes the lock. Returns the stored answer, if any. */
  async #begin(client: PoolClient, { space: { namespace }, key }: KeyedCall): Promise<string | undefined> {
    const lockName = JSON.stringify([this.#schema, namespace, key.caller, key.key])
    const [, locked, kept] = await Promise.all([
      client.query(this.#connections.beginOf('core')),
      this.#connections.send<{ got: boolean }>(client, lock, [lockName]),
      this.#database.runWithin(client, findAnswer(namespace, key)),
    ])
    checkAnswer(kept, key, locked.rows[0]!.got)
    return kept?.answer
  }

  async #commit(client: PoolClient, { space, key }: KeyedCall, answer: string | undefined): Promise<void> {
    const writing =
      answer === undefined
        ? Promise.resolve()
        : this.#database.runWithin(client, keepAnswer(space.namespace, key, answer))
    // Send COMMIT at once: after a failed statement it is a rollback.
    const [, committed]: [void, QueryResult] = await Promise.all([writing, client.query('COMMIT')])
    if (committed.command !== 'COMMIT') throw new Error(`COMMIT was answered with ${committed.command}`)
  }
}

interface KeyedCall {
  readonly space: Space
  readonly key: RequestKey
  readonly method: keyof JobStore
  readonly args: readonly unknown[]
}

const lock = {
  name: 'sb_key_lock',
  text: `SELECT pg_try_advisory_xact_lock(hashtextextended('signalbox key ' || $1::text, 0)) AS got`,
}
