import type { ContentionSnapshot } from '../../../contention/index.ts'
import type { Route } from '../route.ts'
import { schemaFor, Type } from '../schema.ts'
import { count, instant } from '../values.ts'

/** The route of contention: who waits, how long and on whom, in the server that answers. */

const ms = Type.Number({ minimum: 0 })
const nameOrNull = Type.Union([Type.String(), Type.Null()])

const distribution = Type.Object({
  count,
  sumMs: ms,
  maxMs: ms,
  p50Ms: ms,
  p90Ms: ms,
  p99Ms: ms,
  p999Ms: ms,
})

const snapshot = Type.Object({
  since: instant,
  at: instant,
  holders: Type.Array(Type.Object({ holder: Type.String(), ms })),
  matrix: Type.Array(Type.Object({ waiter: Type.String(), holder: Type.String(), ms, count })),
  kinds: Type.Array(
    Type.Object({ kind: Type.String(), lane: nameOrNull, wait: distribution, hold: distribution }),
  ),
  lanes: Type.Array(
    Type.Object({ lane: Type.String(), size: count, waiting: count, peakWaiting: count, holding: count }),
  ),
  slowest: Type.Array(
    Type.Object({ kind: Type.String(), what: nameOrNull, waitMs: ms, holdMs: ms, at: instant }),
  ),
  keys: Type.Array(
    Type.Object({
      namespace: Type.String(),
      operation: Type.String(),
      resource: Type.String(),
      holder: nameOrNull,
      waiters: Type.Array(Type.Object({ node: Type.String(), since: instant })),
      waitCount: count,
      waitedMs: ms,
      maxWaitMs: ms,
      heldBy: Type.Array(Type.Object({ node: nameOrNull, ms })),
    }),
  ),
  overflow: Type.Object({ kinds: count, tickets: count, cells: count, keys: count }),
})

export const getContention: Route<{ reply: ContentionSnapshot }> = {
  id: 'getContention',
  method: 'GET',
  path: '/v1/contention',
  scope: 'read',
  module: 'contention',
  summary: 'Who waits, how long, and on whom, in the server that answers.',
  description:
    'Waits and holds by kind of command, the matrix of who waited on whom (with `gc`, `event-loop`, `host` and `store` among the holders), ' +
    'lanes, the slowest turns of the last one to two hours, and waits for locks by key. It is of one process: ask each server. ' +
    'A token of one namespace sees the keys of its own alone, and not what the slowest turns were about.',
  replies: { 200: schemaFor<ContentionSnapshot>()(snapshot) },
  mutates: false,
}
