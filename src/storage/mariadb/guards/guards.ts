import type { GuardAsk, GuardEnd, GuardRef, GuardStanding, GuardStore } from '../../../once/guard-store.ts'
import { decodeToken } from '../../token.ts'
import { endTransaction } from '../connection/caller-transaction.ts'
import { rowCount, type Statement } from '../connection/calls.ts'
import { movingMs, nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { type ClaimedRow, decodeStanding, encodeClaims } from './guard-claims.ts'
import { inKeyOrder } from './guard-order.ts'
import { list, prune } from './guard-reads.ts'
import { takeSteps } from './guard-steps.ts'
import { seen } from './guard-windows.ts'

/**
 * Guards on MariaDB: a key is a row, and every change of it one statement that says on which condition it takes. Its
 * clock moves on while it waits for somebody else's transaction, which may have the row for long: so `store.calls` should
 * have connections of their own.
 */
export function createMariadbGuards(store: Store): GuardStore {
  const { calls, tables, namespace } = store
  return {
    claim: (asks, tx) => claim(store, asks, tx),
    settle: (ends, tx) => settle(store, ends, tx),
    endTransaction,
    renew: (ref, leaseMs, tx) => renew(store, ref, leaseMs, tx),
    forget: (space, key) =>
      calls.run('forget a guard', async (call) => {
        const [row] = await call.rows<{ known: number }>(
          `DELETE FROM ${tables.guard} WHERE namespace = ? AND space = ? AND guard_key = ?
            RETURNING forget_at IS NULL OR forget_at > ${nowMs} AS known`,
          [namespace, space, key],
        )
        return row?.known === 1
      }),
    seen: (asks, tx) => seen(store, asks, tx),
    list: (query) => list(store, query),
    prune: (limit) => prune(store, limit),
  }
}

async function claim(
  store: Store,
  asks: readonly GuardAsk[],
  tx: unknown,
): Promise<readonly GuardStanding[]> {
  if (asks.length === 0) return []
  const claims = encodeClaims(store, asks, 'running')
  const statements = claims.map(({ statement }) => statement)
  const answers = (await takeSteps(store, 'claim keys', statements, tx)) as ClaimedRow[][]
  const standings = new Array<GuardStanding>(asks.length)
  for (const [nr, claiming] of claims.entries()) {
    for (const [row, ask] of claiming.asks.entries()) {
      standings[ask.index] = decodeStanding(ask, answers[nr]![row]!)
    }
  }
  return standings
}

async function settle(store: Store, ends: readonly GuardEnd[], tx: unknown): Promise<readonly boolean[]> {
  const took = new Array<boolean>(ends.length).fill(false)
  const sorted = ends.map((end, index) => ({ ...end, index })).sort(inKeyOrder)
  const written = sorted.flatMap((end) => {
    const statement = encodeEnd(store, end)
    return statement ? [{ index: end.index, statement }] : []
  })
  if (written.length === 0) return took
  const statements = written.map(({ statement }) => statement)
  const answers = await takeSteps(store, 'settle guards', statements, tx)
  for (const [nr, { index }] of written.entries()) took[index] = rowCount(answers[nr]) > 0
  return took
}

function encodeEnd(store: Store, end: GuardEnd): Statement | undefined {
  const ours = encodeOurs(store, end)
  if (!ours) return undefined
  const [where, values] = ours
  const { guard } = store.tables
  if (end.end === 'released') return [`DELETE FROM ${guard} WHERE ${where}`, values]
  return [
    `UPDATE ${guard} SET status = ?, result = ?, ends_at = ${movingMs} + keep_ms WHERE ${where}`,
    [end.end, end.end === 'done' ? end.result : null, ...values],
  ]
}

async function renew(store: Store, ref: GuardRef, leaseMs: number, tx: unknown): Promise<number | undefined> {
  const ours = encodeOurs(store, ref)
  if (!ours) return undefined
  const [where, values] = ours
  const { guard } = store.tables
  const [, rows] = (await takeSteps(
    store,
    'renew a guard',
    [
      [
        `UPDATE ${guard} SET ends_at = GREATEST(ends_at, ${movingMs} + ?) WHERE ${where}`,
        [leaseMs, ...values],
      ],
      // Locked, so that it is read as it is now, whatever snapshot the transaction has.
      [`SELECT ends_at FROM ${guard} WHERE ${where} FOR UPDATE`, values],
    ],
    tx,
  )) as [unknown, { ends_at: number | string }[]]
  return rows[0] && Number(rows[0].ends_at)
}

/** The condition on which a claim is still its owner's; undefined when no row can match its token. */
function encodeOurs({ namespace }: Store, { space, key, token }: GuardRef): Statement | undefined {
  const parts = decodeToken(token)
  if (!parts) return undefined
  return [
    `namespace = ? AND space = ? AND guard_key = ? AND status = 'running' AND token_no = ? AND token_nonce = ?
        AND (ends_at > ${movingMs} OR mode = 'at-most-once')`,
    [namespace, space, key, Number(parts.leaseNo), parts.nonce],
  ]
}
