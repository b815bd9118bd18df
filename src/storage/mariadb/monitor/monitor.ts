import type { MonitorStore } from '../../../monitor/monitor-store.ts'
import type { MariadbDatabase } from '../connection/database.ts'
import type { Store } from '../engine-store.ts'
import { due, letGo, take } from './monitor-channels.ts'
import { prune } from './monitor-prune.ts'
import { countDead, listDecisions, listNotifications, listSubjects, readKnown } from './monitor-reads.ts'
import { readRules, rewriteChannel, silence, subscribe, unsilence, unsubscribe } from './monitor-rules.ts'
import { proceed, replay } from './monitor-sending.ts'
import { write } from './monitor-write.ts'

/** The MonitorStore of MariaDB: each part is a file. Transactions wait for each other's rows, on the connections of `store.calls`. */
export function createMariadbMonitor(store: Store, database: MariadbDatabase): MonitorStore {
  return {
    known: (ask) => readKnown(store, ask),
    write: (batch) => write(store, database, batch),
    rules: () => readRules(store),
    subscribe: (one) => subscribe(store, one),
    unsubscribe: (id) => unsubscribe(store, id),
    rewriteChannel: (id, from, to) => rewriteChannel(store, id, from, to),
    silence: (one) => silence(store, one),
    unsilence: (id) => unsilence(store, id),
    take: (ask) => take(store, ask),
    due: (ref, limit) => due(store, ref, limit),
    proceed: (ref, step) => proceed(store, ref, step),
    letGo: (ref) => letGo(store, ref),
    decisions: (query) => listDecisions(store, query),
    notifications: (query) => listNotifications(store, query),
    notification: async (id) => (await listNotifications(store, { ids: [id], limit: 1 }))[0],
    countDead: () => countDead(store),
    subjects: (query) => listSubjects(store, query),
    replay: (id, job) => replay(store, id, job),
    prune: (request) => prune(store, request),
  }
}
