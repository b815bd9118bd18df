import type { Age } from '../operations.ts'
import { last, type Operation, one, operation, run } from '../procedure.ts'
import { statement } from '../statement.ts'

/** Forgetting what is old. Each table has an index by its time, but for silences, which are few. */
const old = { namespace: 'text', olderThanMs: 'integer', limit: 'integer' } as const

/** Of a table: the columns of its key, its time, and the condition of the index by that time. */
const tables = [
  { name: 'monitor_decision', key: 'id', at: 'decided_at', where: '' },
  { name: 'monitor_notification', key: 'id', at: 'finished_at', where: 'AND finished_at IS NOT NULL' },
  {
    ...{ name: 'monitor_window', key: 'subject, subscription_id, state_hash' },
    ...{ at: 'ends_at', where: `AND status = 'notified'` },
  },
  { name: 'monitor_silence', key: 'id', at: 'ends_at', where: '' },
]

const deletions = tables.map(({ name, key, at, where }) =>
  statement(`${name}_prune`, old, (d) =>
    d.deleteFirst({
      from: `@${name}`,
      key: `namespace, ${key}`,
      where: `namespace = :namespace AND ${at} < ${d.now} - :olderThanMs ${where}`,
      orderBy: at,
      limit: ':limit',
    }),
  ),
)

const looks = tables.map(({ name, at, where }) =>
  statement(
    `${name}_is_old`,
    old,
    (d) =>
      `SELECT 1 FROM @${name} WHERE namespace = :namespace AND ${at} < ${d.now} - :olderThanMs ${where} LIMIT :limit`,
  ),
)

/** Deletes up to `limit` rows of each table. Answers how many of each. */
export const pruneMonitor: Operation<[string, Age], readonly number[]> = operation({
  name: 'prune the monitor',
  *procedure(namespace: string, request: Age) {
    const results = yield* last(run(...deletions.map((deletion) => deletion({ namespace, ...request }))))
    return results.map(({ rowCount }) => rowCount)
  },
  upkeep: {
    *isNeeded(namespace: string, { olderThanMs }: Age) {
      for (const look of looks) if (yield* one(look({ namespace, olderThanMs, limit: 1 }))) return true
      return false
    },
    otherwise: [],
  },
})
