import type { TransactionEnder } from '../../../core/caller-transaction.ts'
import type { GuardAsk, GuardEnd, GuardQuery, GuardRef, GuardStore } from '../../../once/guard-store.ts'
import { decodeToken } from '../../token.ts'
import type { Database } from '../database.ts'
import type { Dialect } from '../dialect.ts'
import { count, last, many, one, operation, run } from '../procedure.ts'
import { type Bound, statement } from '../statement.ts'
import { claimKeys, inKeyOrder } from './guard-claims.ts'
import { decodeGuardRow, type GuardRow } from './guard-row.ts'
import { isWindowOver, openWindows, pruneWindows } from './guard-windows.ts'

/**
 * The guards of one namespace: a row for each key that is running, done or failed. Every statement treats an expired
 * row as absent; deleting the row only saves space. A caller's transaction may lock rows for a long time, so writes use
 * the connection group `waiting`.
 */
export function createGuardStore(database: Database, namespace: string, ender: TransactionEnder): GuardStore {
  const renew: GuardStore['renew'] = (ref, leaseMs, tx) =>
    database.run(renewGuard, [namespace, ref, leaseMs], { tx, leaseMs })
  return {
    async claim(asks, tx) {
      const claimed = await database.run(claimGuards, [namespace, asks], { tx })
      for (const [index, { standing, waitedMs }] of claimed.entries()) {
        // The claim waited for another transaction: the lease counts from the moment when the claim got the key.
        if (standing.status === 'run' && waitedMs > 20)
          await renew({ ...asks[index]!, token: standing.token }, asks[index]!.leaseMs, tx)
      }
      return claimed.map(({ standing }) => standing)
    },
    settle: (ends, tx) => database.run(settleGuards, [namespace, ends], { tx }),
    endTransaction: (tx, error) => ender.endTransaction(tx, error),
    renew,
    forget: (space, key) => database.run(forgetGuard, [namespace, space, key]),
    seen: (asks, tx) => database.run(openWindows, [namespace, asks], { tx }),
    list: (query) => database.run(listGuards, [namespace, query]),
    prune: (limit) => database.run(pruneGuards, [namespace, limit]),
  }
}

const claimGuards = operation({
  name: 'claim keys',
  connectionGroup: 'waiting',
  procedure: (namespace: string, asks: readonly GuardAsk[]) => claimKeys(namespace, asks),
})

/** While the condition holds, the caller owns the claim. No other caller can take over a stuck claim. */
const isOurs = (
  d: Dialect,
) => `namespace = :namespace AND space = :space AND guard_key = :key AND status = 'running'
  AND token_no = :tokenNo AND token_nonce = :nonce AND (ends_at > ${d.movingNow} OR mode = 'at-most-once')`
const ours = { namespace: 'text', space: 'text', key: 'text', tokenNo: 'integer', nonce: 'text' } as const

const setEnd = statement(
  'guard_settle',
  { ...ours, status: 'text', result: 'text | null' },
  (d) => `
UPDATE @once_guard SET status = :status, result = :result, ends_at = ${d.movingNow} + keep_ms WHERE ${isOurs(d)}`,
)

const release = statement('guard_release', ours, (d) => `DELETE FROM @once_guard WHERE ${isOurs(d)}`)

const settleGuards = operation({
  name: 'settle guards',
  connectionGroup: 'waiting',
  *procedure(namespace: string, ends: readonly GuardEnd[]) {
    const took = ends.map(() => false)
    const written = ends.flatMap(({ space, key, token, end, result }, index) => {
      const owner = encodeOwner(namespace, { space, key, token })
      if (!owner) return []
      const bound =
        end === 'released'
          ? release(owner)
          : setEnd({ ...owner, status: end, result: end === 'done' ? result : null })
      return [{ space, key, index, bound }]
    })
    written.sort(inKeyOrder)
    const results = yield* last(run(...written.map(({ bound }) => bound)))
    for (const [nr, { index }] of written.entries()) took[index] = results[nr]!.rowCount > 0
    return took
  },
})

/** Undefined: no row can match the token. */
function encodeOwner(namespace: string, { space, key, token }: GuardRef) {
  const parts = decodeToken(token)
  return parts && { namespace, space, key, tokenNo: Number(parts.leaseNo), nonce: parts.nonce }
}

const extend = statement(
  'guard_renew',
  { ...ours, leaseMs: 'integer' },
  (d) => `
UPDATE @once_guard SET ends_at = ${d.greatest('ends_at', `${d.movingNow} + :leaseMs`)} WHERE ${isOurs(d)}`,
)

const selectEnd = statement(
  'guard_end',
  ours,
  (d) => `SELECT ends_at FROM @once_guard WHERE ${isOurs(d)} ${d.forUpdate}`,
)

const renewGuard = operation({
  name: 'renew a guard',
  connectionGroup: 'heartbeat',
  *procedure(namespace: string, ref: GuardRef, leaseMs: number) {
    const owner = encodeOwner(namespace, ref)
    if (!owner) return undefined
    const [, found] = yield* last(run(extend({ ...owner, leaseMs }), selectEnd(owner)))
    const [row] = found!.rows as readonly Pick<GuardRow, 'ends_at'>[]
    return row && Number(row.ends_at)
  },
})

const isKnown = (d: Dialect) => `(forget_at IS NULL OR forget_at > ${d.now})`

const remove = statement(
  'guard_forget',
  { namespace: 'text', space: 'text', key: 'text' },
  (d) => `
DELETE FROM @once_guard WHERE namespace = :namespace AND space = :space AND guard_key = :key
RETURNING ${isKnown(d)} AS known`,
)

const forgetGuard = operation({
  name: 'forget a guard',
  connectionGroup: 'waiting',
  *procedure(namespace: string, space: string, key: string) {
    const row = yield* last(one<{ known: boolean | number }>(remove({ namespace, space, key })))
    return Boolean(row?.known)
  },
})

/** The statements that delete keys of a space, in the order in which all callers lock them. */
export function forgetKeys(namespace: string, space: string, keys: readonly string[]): readonly Bound[] {
  return keys.toSorted().map((key) => remove({ namespace, space, key }))
}

const selectPage = statement(
  'guard_list',
  { namespace: 'text', space: 'text', 'search?': 'text', 'after?': 'text', limit: 'integer' },
  (d) => `
SELECT guard_key, status, mode, attempt, claimed_at, keep_ms, ends_at, ${d.now} AS now
FROM @once_guard ${d.byIndex('PRIMARY')}
WHERE namespace = :namespace AND space = :space AND ${isKnown(d)} {AND guard_key > :after}
  {AND ${d.contains('guard_key', ':search')}}
ORDER BY guard_key LIMIT :limit`,
)

const listGuards = operation({
  name: 'list guards',
  isRead: true,
  *procedure(namespace: string, { space, search, limit, cursor }: GuardQuery) {
    const after = cursor === undefined ? undefined : Buffer.from(cursor, 'base64url').toString()
    const rows = yield* many<GuardRow & { now: number | string }>(
      selectPage({ namespace, space, search, after, limit: limit + 1 }),
    )
    const items = rows.slice(0, limit).map((row) => decodeGuardRow(row, Number(row.now)))
    const final = rows.length > limit ? items.at(-1) : undefined
    return { items, cursor: final ? Buffer.from(final.key).toString('base64url') : null }
  },
})

const deleteOver = statement('guard_prune', { namespace: 'text', limit: 'integer' }, (d) =>
  d.deleteFirst({
    from: '@once_guard',
    key: 'namespace, space, guard_key',
    where: `namespace = :namespace AND forget_at <= ${d.now}`,
    orderBy: 'forget_at',
    limit: ':limit',
  }),
)

const selectOver = statement(
  'guard_is_over',
  { namespace: 'text' },
  (d) => `SELECT 1 FROM @once_guard WHERE namespace = :namespace AND forget_at <= ${d.now} LIMIT 1`,
)

const pruneGuards = operation({
  name: 'prune guards',
  *procedure(namespace: string, limit: number) {
    const guards = yield* count(deleteOver({ namespace, limit }))
    if (guards >= limit) return guards
    return guards + (yield* last(pruneWindows(namespace, limit - guards)))
  },
  upkeep: {
    *isNeeded(namespace: string) {
      return (yield* one(selectOver({ namespace }))) !== undefined || (yield* isWindowOver(namespace))
    },
    otherwise: 0,
  },
})
