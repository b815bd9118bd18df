import type { WindowAsk } from '../../../once/guard-store.ts'
import { createNonce } from '../../token.ts'
import type { Statement } from '../connection/calls.ts'
import { movingMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { chunkBySize } from '../jobs/settle.ts'
import { takeSteps } from './guard-steps.ts'

/** GuardStore.seen: as with claims, whoever finds its own nonce in the row has opened the window. */
export async function seen(
  store: Store,
  asks: readonly WindowAsk[],
  tx: unknown,
): Promise<readonly boolean[]> {
  if (asks.length === 0) return []
  const sorted = asks
    .map((ask, index) => ({ ...ask, index, nonce: createNonce() }))
    .sort((a, b) => (a.window === b.window ? 0 : a.window < b.window ? -1 : 1))
  const chunks = chunkBySize(sorted, () => 600, store.packetBytes)
  const statements = chunks.map((chunk) => encodeOpening(store, chunk))
  const answers = (await takeSteps(store, 'look at windows', statements, tx)) as { opened_by: string }[][]
  const wasSeen = new Array<boolean>(asks.length)
  for (const [nr, chunk] of chunks.entries()) {
    for (const [row, { index, nonce }] of chunk.entries()) {
      wasSeen[index] = answers[nr]![row]!.opened_by !== nonce
    }
  }
  return wasSeen
}

function encodeOpening(
  { tables, namespace }: Store,
  asks: readonly (WindowAsk & { readonly nonce: string })[],
): Statement {
  const took = 'opened_by = VALUES(opened_by)'
  return [
    `INSERT INTO ${tables.window} (namespace, window_key, value, opened_by, ends_at)
      VALUES ${asks.map(() => `(?, ?, ?, ?, ${movingMs} + ?)`).join(',\n')}
      ON DUPLICATE KEY UPDATE
        opened_by = IF(ends_at <= ${movingMs} OR value <> VALUES(value), VALUES(opened_by), opened_by),
        value = IF(${took}, VALUES(value), value), ends_at = IF(${took}, VALUES(ends_at), ends_at)
      RETURNING opened_by`,
    asks.flatMap(({ window, value, windowMs, nonce }) => [namespace, window, value, nonce, windowMs]),
  ]
}
