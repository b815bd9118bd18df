import type { MonitorStore } from '../../../monitor/monitor-store.ts'
import type { Database } from '../database.ts'
import { letGo, readDue, takeChannel } from './channels.ts'
import { pruneMonitor } from './prune.ts'
import { countDead, listDecisions, listNotifications, listSubjects } from './reads.ts'
import { readKnown, writeReport } from './reports.ts'
import { readRules, rewriteChannel, silence, subscribe, unsilence, unsubscribe } from './rules.ts'
import { proceed, replay } from './sending.ts'

/** The monitor of one namespace. The database must be one that adds jobs. */
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
