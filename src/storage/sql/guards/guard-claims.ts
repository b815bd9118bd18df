import type { GuardAsk, GuardStanding } from '../../../once/guard-store.ts'
import { createNonce } from '../../token.ts'
import { decodeBytes } from '../dialect.ts'
import { last, many, type Procedure, type Result, run } from '../procedure.ts'
import { type Bound, statement } from '../statement.ts'
import { encodeGuardToken, type GuardRow, judgeGuard } from './guard-row.ts'

/**
 * Claims keys: one statement inserts a row for each key, or takes over an existing free row. Each claim has a new
 * nonce. If the returned row has that nonce, the claim succeeded; otherwise the row shows the reason. The start of the
 * statement decides for all columns; the statement writes it as `claimed_at`.
 */
const columns = `namespace, space, guard_key, status, mode, attempt, token_no, token_nonce, fingerprint, result, claimed_at,
  keep_ms, ends_at`

const claim = statement(
  'guard_claim',
  {
    namespace: 'text',
    status: 'text',
    rows: {
      ...{ space: 'text', guard_key: 'text', mode: 'text', nonce: 'text', fingerprint: 'text | null' },
      ...{ keep_ms: 'integer', lease_ms: 'integer' },
    },
  },
  (d) => `${d.upsertWhen({
    into: '@once_guard',
    columns,
    source: `SELECT :namespace, v.space, v.guard_key, :status, v.mode, 1, ${d.nowMicros}, v.nonce, v.fingerprint, NULL,
      ${d.now}, v.keep_ms, ${d.now} + v.lease_ms
    FROM :rows WHERE 1 = 1`,
    key: 'namespace, space, guard_key',
    mark: 'token_nonce',
    when: `(old.status = 'failed'
      OR (old.ends_at <= new.claimed_at AND (old.status = 'done' OR old.mode = 'at-least-once')))`,
    set: {
      token_no: d.greatest('old.token_no + 1', 'new.token_no'),
      // Attempts continue to count after a claim that failed or expired, while the store keeps its row.
      attempt: `CASE WHEN old.status = 'failed' AND old.ends_at > new.claimed_at
        OR old.status = 'running' AND old.ends_at + old.keep_ms > new.claimed_at THEN old.attempt + 1 ELSE 1 END`,
      fingerprint: 'new.fingerprint',
      result: 'NULL',
      claimed_at: 'new.claimed_at',
      keep_ms: 'new.keep_ms',
      ends_at: 'new.ends_at',
      mode: 'new.mode',
      status: 'new.status',
    },
  })}
RETURNING space, ${d.bytes('guard_key')} AS guard_key, token_no, token_nonce, attempt, status, mode,
  ${d.bytes('fingerprint')} AS fingerprint, ${d.bytes('result')} AS result, claimed_at, ends_at, ${d.movingNow} AS now`,
)

/** The rows that refused claims. */
const select = statement(
  'guard_find',
  { namespace: 'text', rows: { space: 'text', guard_key: 'text' } },
  (d) => `
SELECT g.space, g.guard_key, g.token_no, g.token_nonce, g.attempt, g.status, g.mode, g.fingerprint, g.result, g.claimed_at,
  g.ends_at, ${d.now} AS now
FROM :rows ${d.thenJoin('@once_guard', 'g', 'g.namespace = :namespace AND g.space = v.space AND g.guard_key = v.guard_key')}`,
)

interface ClaimedRow extends Omit<GuardRow, 'guard_key' | 'fingerprint' | 'result' | 'keep_ms'> {
  readonly space: string
  readonly guard_key: string | Uint8Array
  readonly fingerprint: string | Uint8Array | null
  readonly result: string | Uint8Array | null
  readonly now: number | string
}

/** A key's standing, and how long its claim waited for another transaction's row lock. */
export interface Claimed {
  readonly standing: GuardStanding
  readonly waitedMs: number
}

/** Claims keys. The claims are the last step of the transaction. */
export function* claimKeys(namespace: string, asks: readonly GuardAsk[]): Procedure<readonly Claimed[]> {
  if (asks.length === 0) return []
  const claims = asks.map((ask) => ({ ...ask, nonce: createNonce() }))
  const turns = takeTurns(claims, nameOf)
  const results = yield* last(run(...turns.map((some) => bindClaims(namespace, some, 'running'))))
  const found = new Map<object, ClaimedRow>()
  for (const [nr, some] of turns.entries())
    for (const [ask, row] of matchRows(some, results[nr]!.rows as readonly ClaimedRow[])) found.set(ask, row)
  // Only SQLite omits rows, and its rows cannot change meanwhile.
  const others = claims.filter((ask) => !found.has(ask))
  if (others.length > 0) {
    const rows = others.map(({ space, key }) => ({ space, guard_key: key }))
    const there = yield* many<ClaimedRow>(select({ namespace, rows }))
    for (const [ask, row] of matchRows(others, there)) found.set(ask, row)
  }
  return claims.map((ask) => decodeClaimed(ask, found.get(ask)!))
}

/**
 * Claims event ids that are done at once. The caller puts the statements into its own step and passes their results to
 * `listTaken`. It returns the keys that another call had claimed before; these stay unchanged.
 */
export function claimAsDone(
  namespace: string,
  space: string,
  events: readonly { readonly key: string; readonly keepMs: number }[],
): { readonly statements: readonly Bound[]; listTaken(results: readonly Result[]): readonly string[] } {
  // If a key occurs twice, the second occurrence finds it taken.
  const byKey = new Map(events.map((event) => [event.key, event]))
  const repeats = events.filter((event) => byKey.get(event.key) !== event).map(({ key }) => key)
  const claims = [...byKey.values()].map(({ key, keepMs }) => ({
    ...{ space, key, keepMs, leaseMs: keepMs, mode: 'at-least-once' as const, fingerprint: null },
    nonce: createNonce(),
  }))
  return {
    statements: claims.length === 0 ? [] : [bindClaims(namespace, claims, 'done')],
    listTaken(results) {
      const rows = results.flatMap((result) => result.rows as readonly ClaimedRow[])
      const ours = new Set(rows.map(({ token_nonce }) => token_nonce))
      return [...claims.filter(({ nonce }) => !ours.has(nonce)).map(({ key }) => key), ...repeats]
    },
  }
}

type Claim = GuardAsk & { readonly nonce: string }

function bindClaims(namespace: string, claims: readonly Claim[], status: 'running' | 'done') {
  const rows = claims.toSorted(inKeyOrder).map((ask) => ({
    ...{
      space: ask.space,
      guard_key: ask.key,
      mode: ask.mode,
      nonce: ask.nonce,
      fingerprint: ask.fingerprint,
    },
    ...{ keep_ms: ask.keepMs, lease_ms: ask.leaseMs },
  }))
  return claim({ namespace, status, rows })
}

interface Key {
  readonly space: string
  readonly key: string
}

/** All statements on several guards lock them in this order, so that no two transactions deadlock. */
export function inKeyOrder(a: Key, b: Key): number {
  if (a.space !== b.space) return a.space < b.space ? -1 : 1
  if (a.key === b.key) return 0
  return a.key < b.key ? -1 : 1
}

/** Neither part contains control characters. */
const nameOf = ({ space, key }: Key): string => `${space}\n${key}`

function* matchRows<Ask extends Key>(
  asks: readonly Ask[],
  rows: readonly ClaimedRow[],
): Generator<readonly [Ask, ClaimedRow]> {
  const byName = new Map(
    rows.map((row) => [nameOf({ space: row.space, key: decodeBytes(row.guard_key)! }), row]),
  )
  for (const ask of asks) {
    const row = byName.get(nameOf(ask))
    if (row) yield [ask, row]
  }
}

function decodeClaimed(ask: Claim, row: ClaimedRow): Claimed {
  const now = Number(row.now)
  if (row.token_nonce === ask.nonce) {
    const token = encodeGuardToken(Number(row.token_no), ask.nonce)
    const standing = { status: 'run', token, attempt: Number(row.attempt) } as const
    return { standing, waitedMs: now - Number(row.claimed_at) }
  }
  // The statement judged the row a moment before `now`, and it was not free then.
  const isLapsing = row.mode === 'at-least-once' || row.status === 'done'
  const at = isLapsing ? Math.min(now, Number(row.ends_at) - 1) : now
  return { standing: judgeGuard(decodeTexts(row), ask.fingerprint, at)!, waitedMs: 0 }
}

function decodeTexts(
  row: ClaimedRow,
): Pick<GuardRow, 'status' | 'mode' | 'fingerprint' | 'result' | 'ends_at'> {
  const { status, mode, ends_at } = row
  return { status, mode, ends_at, fingerprint: decodeBytes(row.fingerprint), result: decodeBytes(row.result) }
}

/** One statement cannot write a row twice: repeated names go into later turns. */
export function takeTurns<Item>(
  items: readonly Item[],
  nameOfItem: (item: Item) => string,
): readonly Item[][] {
  const turns: Item[][] = []
  const counts = new Map<string, number>()
  for (const item of items) {
    const name = nameOfItem(item)
    const turn = counts.get(name) ?? 0
    counts.set(name, turn + 1)
    turns[turn] ??= []
    turns[turn].push(item)
  }
  return turns
}
