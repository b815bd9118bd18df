import type { MonitorStore } from '../../../monitor/monitor-store.ts'
import type { Database } from '../database.ts'
import type { Age } from '../operations.ts'
import { last, type Operation, one, operation, run } from '../procedure.ts'
import { statement } from '../statement.ts'
import { letGo, readDue, takeChannel } from './channels.ts'
import { countDead, listDecisions, listNotifications, listSubjects } from './reads.ts'
import { readKnown, writeReport } from './reports.ts'
import { readRules, rewriteChannel, silence, subscribe, unsilence, unsubscribe } from './rules.ts'
import { proceed, replay } from './sending.ts'

/** The monitor of one namespace. The database must be one that can add jobs. */
export function createMonitorStore(database: Database, namespace: string): MonitorStore {
  const listThese: MonitorStore['notifications'] = (query) =>
    database.run(listNotifications, [namespace, query])
  return {
    known: (ask) => database.run(readKnown, [namespace, ask]),
    write: (batch) => database.run(writeReport, [namespace, batch]),
    rules: () => database.run(readRules, [namespace]),
    subscribe: (subscription) => database.run(subscribe, [namespace, subscription]),
    unsubscribe: (id) => database.run(unsubscribe, [namespace, id]),
    rewriteChannel: (id, from, to) => database.run(rewriteChannel, [namespace, id, { from, to }]),
    silence: (one) => database.run(silence, [namespace, one]),
    unsilence: (id) => database.run(unsilence, [namespace, id]),
    take: (ask) => database.run(takeChannel, [namespace, ask]),
    due: (ref, limit) => database.run(readDue, [namespace, ref, limit]),
    proceed: (ref, step) => database.run(proceed, [namespace, ref, step]),
    letGo: (ref) => database.run(letGo, [namespace, ref]),
    decisions: (query) => database.run(listDecisions, [namespace, query]),
    notifications: listThese,
    notification: async (id) => (await listThese({ ids: [id], limit: 1 }))[0],
    countDead: () => database.run(countDead, [namespace]),
    subjects: (query) => database.run(listSubjects, [namespace, query]),
    replay: (id, job) => database.run(replay, [namespace, id, job]),
    async prune({ olderThanMs, limit }) {
      let pruned = 0
      for (let left = limit; left > 0; ) {
        const most = Math.min(1_000, left)
        const counts = await database.run(pruneMonitor, [namespace, { olderThanMs, limit: most }])
        pruned += counts.reduce((sum, count) => sum + count, 0)
        left = counts.some((count) => count === most) ? left - most : 0
      }
      return pruned
    },
  }
}

/** Deletes old rows. Each table has an index by its time, except silences, because there are few. */
const old = { namespace: 'text', olderThanMs: 'integer', limit: 'integer' } as const

/** For each table: the columns of its key, its time, and the condition of the index by that time. */
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

/** Deletes up to `limit` rows of each table and returns the number of each. */
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
