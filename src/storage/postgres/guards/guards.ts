import { setTimeout as sleep } from 'node:timers/promises'
import type { QueryResult, QueryResultRow } from 'pg'
import { SignalboxError } from '../../../core/errors.ts'
import type {
  GuardAsk,
  GuardEnd,
  GuardQuery,
  GuardRecord,
  GuardRef,
  GuardStanding,
  GuardStore,
  WindowAsk,
} from '../../../once/guard-store.ts'
import { decodeGuardRow, type GuardRow, judgeGuard } from '../../sql/guard-row.ts'
import { createNonce, decodeToken, encodeToken } from '../../token.ts'
import {
  endTransaction,
  inCallers,
  requireTransaction,
  wrongDatabase,
} from '../connection/caller-transaction.ts'
import { repeated, sparse } from '../connection/columns.ts'
import type { Connections, Runner, Statement } from '../connection/connection.ts'
import type { Space } from '../jobs/namespace-memory.ts'
import type { GuardStatements } from './guard-statements.ts'

/**
 * Guards on Postgres: a call is one statement, whatever its number of keys. Only a key that is named twice in a call
 * takes more, because a statement writes no row twice: then there is one for each turn, sent together.
 */
export class PostgresGuards implements GuardStore {
  readonly #connections: Connections
  readonly #namespace: string
  readonly #storeId: string
  readonly #statements: GuardStatements
  /** Connections of callers that were found to lead to this store. */
  readonly #known = new WeakSet<Runner>()

  constructor(connections: Connections, { namespace, storeId }: Space, statements: GuardStatements) {
    this.#connections = connections
    this.#namespace = namespace
    this.#storeId = storeId
    this.#statements = statements
  }

  async claim(asks: readonly GuardAsk[], tx?: unknown): Promise<readonly GuardStanding[]> {
    const answers: GuardStanding[] = []
    let open = asks.map((ask, at) => ({ ask, at, nonce: createNonce() }))
    for (let tries = 0; open.length > 0; tries++) {
      // Somebody had the key and let go of it between the two looks that a claim takes: it is asked for again.
      if (tries === 20) throw handsChanged()
      if (tries > 1) await sleep(Math.random() * Math.min(2 ** tries, 50))
      const turns = takeTurns(open, ({ ask }) => JSON.stringify([ask.space, ask.key]))
      const rows = await this.#send<ClaimRow>(
        this.#statements.claim,
        turns.map((some) => claimValues(this.#namespace, some, false)),
        tx,
      )
      const byNonce = new Map(rows.map((row) => [row.asked, row]))
      open = open.filter(({ ask, at, nonce }) => {
        const row = byNonce.get(nonce)
        const standing = row && standingOf(row, ask)
        if (standing) answers[at] = standing
        return standing === undefined
      })
    }
    return answers
  }

  endTransaction(tx: unknown, error: unknown): Promise<void> {
    return endTransaction(tx, error)
  }

  async settle(ends: readonly GuardEnd[], tx?: unknown): Promise<readonly boolean[]> {
    const took = ends.map(() => false)
    const asked = ends.flatMap((end, at) => {
      const token = decodeToken(end.token)
      return token === undefined ? [] : [{ end, at, token }]
    })
    if (asked.length === 0) return took
    const values = [
      this.#namespace,
      repeated(asked.map(({ end }) => end.space)),
      asked.map(({ end }) => end.key),
      asked.map(({ token }) => token.leaseNo),
      asked.map(({ token }) => token.nonce),
      repeated(asked.map(({ end }) => end.end)),
      sparse(asked.map(({ end }) => (end.end === 'done' ? end.result : null))),
    ]
    const rows = await this.#send<{ nr: number }>(this.#statements.settle, [values], tx)
    for (const { nr } of rows) took[asked[nr - 1]!.at] = true
    return took
  }

  async renew(ref: GuardRef, leaseMs: number, tx?: unknown): Promise<number | undefined> {
    const token = decodeToken(ref.token)
    if (token === undefined) return undefined
    const { renew } = this.#statements
    const values = [this.#namespace, ref.space, ref.key, token.leaseNo, token.nonce, leaseMs]
    const rows =
      tx === undefined
        ? (await this.#connections.beat<EndRow>(renew, values, leaseMs)).rows
        : await this.#send<EndRow>(renew, [values], tx)
    return rows[0] && Number(rows[0].ends_at)
  }

  async forget(space: string, key: string): Promise<boolean> {
    const values = [this.#namespace, space, key]
    const { rows } = await this.#connections.run<{ was_there: boolean }>(this.#statements.forget, values)
    return rows[0]?.was_there ?? false
  }

  async seen(asks: readonly WindowAsk[], tx?: unknown): Promise<readonly boolean[]> {
    if (asks.length === 0) return []
    const turns = takeTurns(
      asks.map((ask, at) => ({ ...ask, at })),
      ({ window }) => window,
    )
    const opened = await this.#sendEach<{ window_key: string }>(
      this.#statements.seen,
      turns.map((some) => [
        this.#namespace,
        some.map(({ window }) => window),
        some.map(({ value }) => value),
        repeated(some.map(({ windowMs }) => windowMs)),
      ]),
      tx,
    )
    const answers = asks.map(() => true)
    for (const [turn, some] of turns.entries()) {
      const isNew = new Set(opened[turn]!.map(({ window_key }) => window_key))
      for (const { window, at } of some) if (isNew.has(window)) answers[at] = false
    }
    return answers
  }

  async list({ space, search = '', limit, cursor }: GuardQuery): Promise<Page> {
    const after = cursor === undefined ? '' : Buffer.from(cursor, 'base64url').toString()
    const values = [this.#namespace, space, after, search, limit + 1]
    const { rows } = await this.#connections.run<ListedRow>(this.#statements.list, values)
    const items = rows.slice(0, limit).map((row) => decodeGuardRow(row, Number(row.now)))
    const last = rows.length > limit ? items.at(-1) : undefined
    return { items, cursor: last ? Buffer.from(last.key).toString('base64url') : null }
  }

  async prune(limit: number): Promise<number> {
    const { pruneGuards, pruneWindows } = this.#statements
    const guards = (await this.#connections.run(pruneGuards, [this.#namespace, limit])).rowCount ?? 0
    if (guards >= limit) return guards
    const windows = await this.#connections.run(pruneWindows, [this.#namespace, limit - guards])
    return guards + (windows.rowCount ?? 0)
  }

  async #send<Row extends QueryResultRow>(
    statement: Statement,
    turns: readonly unknown[][],
    tx: unknown,
  ): Promise<readonly Row[]> {
    return (await this.#sendEach<Row>(statement, turns, tx)).flat()
  }

  /** One statement for each turn, in one transaction: the caller's, or one of its own. */
  async #sendEach<Row extends QueryResultRow>(
    statement: Statement,
    turns: readonly unknown[][],
    tx: unknown,
  ): Promise<readonly (readonly Row[])[]> {
    if (tx !== undefined) return this.#sendIn(await requireTransaction(tx), statement, turns)
    const [first, ...others] = turns
    if (others.length === 0) return [(await this.#connections.run<Row>(statement, first!)).rows]
    return this.#connections.allOrNothing(
      async (client) => {
        const sent = turns.map((values) => this.#connections.send<Row>(client, statement, values))
        return (await Promise.all(sent)).map(({ rows }) => rows)
      },
      () => true,
    )
  }

  async #sendIn<Row extends QueryResultRow>(
    client: Runner,
    { text }: Statement,
    turns: readonly unknown[][],
  ): Promise<readonly (readonly Row[])[]> {
    return inCallers(async () => {
      await this.#requireHere(client)
      const answers: (readonly Row[])[] = []
      // Without a name: what is prepared on a caller's connection is the caller's business.
      for (const values of turns) answers.push((await client.query<Row>(text, values)).rows)
      return answers
    })
  }

  /** A connection stays with its database, so it is asked once. */
  async #requireHere(client: Runner): Promise<void> {
    if (this.#known.has(client)) return
    const found: QueryResult = await client.query(this.#statements.here.text, [this.#storeId])
    if (found.rowCount !== 1) throw wrongDatabase()
    this.#known.add(client)
  }
}

type Page = { readonly items: readonly GuardRecord[]; readonly cursor: string | null }

/** What a claim answers for one key: the claim that was made, or the row that is in its way. */
export interface ClaimRow {
  /** The nonce of the ask. */
  readonly asked: string
  readonly standing: string
  readonly number: string
  readonly attempts: number
  readonly owner_mode: string | null
  readonly print: string | null
  readonly outcome: string | null
  /** Null of one that was claimed, like all between. */
  readonly until: string | null
  readonly at: string | null
}

interface ListedRow extends Omit<GuardRow, 'token_no' | 'token_nonce' | 'fingerprint' | 'result'> {
  readonly now: string
}

interface EndRow {
  readonly ends_at: string
}

interface Claim {
  readonly ask: GuardAsk
  readonly nonce: string
}

/** `isDone`: what is claimed is done at once. */
export function claimValues(namespace: string, claims: readonly Claim[], isDone: boolean): unknown[] {
  return [
    namespace,
    repeated(claims.map(({ ask }) => ask.space)),
    claims.map(({ ask }) => ask.key),
    claims.map(({ nonce }) => nonce),
    repeated(claims.map(({ ask }) => ask.leaseMs)),
    repeated(claims.map(({ ask }) => ask.keepMs)),
    repeated(claims.map(({ ask }) => ask.mode)),
    sparse(claims.map(({ ask }) => ask.fingerprint)),
    isDone,
  ]
}

/** Undefined: the key had been taken, and was free when it was looked at. */
function standingOf(row: ClaimRow, { fingerprint }: GuardAsk): GuardStanding | undefined {
  if (row.standing === 'run') {
    const token = encodeToken({ leaseNo: row.number, nonce: row.asked })
    return { status: 'run', token, attempt: row.attempts }
  }
  const kept = {
    status: row.standing,
    mode: row.owner_mode!,
    fingerprint: row.print,
    result: row.outcome,
    ends_at: row.until!,
  }
  return judgeGuard(kept, fingerprint, Number(row.at))
}

/** In how many turns something is done in which nothing may come twice: the second of a name is in the second turn. */
function takeTurns<Item>(items: readonly Item[], nameOf: (item: Item) => string): readonly Item[][] {
  const turns: Item[][] = []
  const counts = new Map<string, number>()
  for (const item of items) {
    const name = nameOf(item)
    const turn = counts.get(name) ?? 0
    counts.set(name, turn + 1)
    turns[turn] ??= []
    turns[turn].push(item)
  }
  return turns
}

function handsChanged(): SignalboxError {
  return new SignalboxError(
    'store_busy',
    'A guarded key changed hands again and again while it was being claimed. Try again.',
  )
}
