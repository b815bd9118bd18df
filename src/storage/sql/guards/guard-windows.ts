import type { WindowAsk } from '../../../once/guard-store.ts'
import { createNonce } from '../../token.ts'
import { count, last, type Operation, one, operation, type Procedure, run } from '../procedure.ts'
import { statement } from '../statement.ts'
import { takeTurns } from './guard-claims.ts'

/** The windows of `seen`. As with claims, a call that finds its own nonce in the row opened the window. */
const open = statement(
  'window_open',
  { namespace: 'text', rows: { window_key: 'text', value: 'text', nonce: 'text', window_ms: 'integer' } },
  (d) =>
    `${d.upsertWhen({
      into: '@once_window',
      columns: 'namespace, window_key, value, opened_by, opened_at, ends_at',
      source: `SELECT :namespace, v.window_key, v.value, v.nonce, ${d.now}, ${d.now} + v.window_ms
    FROM :rows WHERE 1 = 1`,
      key: 'namespace, window_key',
      mark: 'opened_by',
      when: '(old.ends_at <= new.opened_at OR old.value <> new.value)',
      set: { value: 'new.value', opened_at: 'new.opened_at', ends_at: 'new.ends_at' },
    })} RETURNING opened_by`,
)

export const openWindows: Operation<[string, readonly WindowAsk[]], readonly boolean[]> = operation({
  name: 'look at windows',
  connectionGroup: 'waiting',
  *procedure(namespace: string, asks: readonly WindowAsk[]) {
    if (asks.length === 0) return []
    const openings = asks.map((ask) => ({ ...ask, nonce: createNonce() }))
    const turns = takeTurns(openings, ({ window }) => window)
    const statements = turns.map((some) => open({ namespace, rows: some.toSorted(byWindow).map(encodeRow) }))
    const results = yield* last(run(...statements))
    const rows = results.flatMap((result) => result.rows as readonly { opened_by: string }[])
    const opened = new Set(rows.map(({ opened_by }) => opened_by))
    return openings.map(({ nonce }) => !opened.has(nonce))
  },
})

function encodeRow({ window, value, windowMs, nonce }: WindowAsk & { readonly nonce: string }) {
  return { window_key: window, value, nonce, window_ms: windowMs }
}

/** All callers lock windows in this order, so that no two transactions deadlock. */
function byWindow(a: WindowAsk, b: WindowAsk): number {
  return a.window === b.window ? 0 : a.window < b.window ? -1 : 1
}

const deleteOver = statement('window_prune', { namespace: 'text', limit: 'integer' }, (d) =>
  d.deleteFirst({
    from: '@once_window',
    key: 'namespace, window_key',
    where: `namespace = :namespace AND ends_at <= ${d.now}`,
    orderBy: 'ends_at',
    limit: ':limit',
  }),
)

const selectOver = statement(
  'window_is_over',
  { namespace: 'text' },
  (d) => `SELECT 1 FROM @once_window WHERE namespace = :namespace AND ends_at <= ${d.now} LIMIT 1`,
)

/** Deletes up to `limit` ended windows and returns their number. */
export function pruneWindows(namespace: string, limit: number): Procedure<number> {
  return count(deleteOver({ namespace, limit }))
}

/** Whether any window has ended. */
export function* isWindowOver(namespace: string): Procedure<boolean> {
  return (yield* one(selectOver({ namespace }))) !== undefined
}
