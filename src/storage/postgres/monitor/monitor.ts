import type { MonitorStore } from '../../../monitor/monitor-store.ts'
import type { Connections } from '../connection/connection.ts'
import type { PostgresDatabase } from '../connection/database.ts'
import type { Space } from '../jobs/namespace-memory.ts'
import { MonitorReads } from './monitor-reads.ts'
import { MonitorRules } from './monitor-rules.ts'
import { MonitorSending } from './monitor-sending.ts'
import type { ReportStatements } from './monitor-statements.ts'
import { MonitorReports } from './monitor-write.ts'

/** The monitor on Postgres: the parts put together. migrations/baseline-monitor.ts says how the tables work. */
export function createPostgresMonitor(
  connections: Connections,
  space: Space,
  schema: string,
  {
    reports: statements,
    database,
  }: { readonly reports: ReportStatements; readonly database: PostgresDatabase },
): MonitorStore {
  const rules = new MonitorRules(connections, space.namespace, schema)
  const reports = new MonitorReports(connections, space, rules, statements, database)
  const sending = new MonitorSending(connections, space, schema)
  const reads = new MonitorReads(connections, space.namespace, schema)
  return {
    known: (ask) => reports.known(ask),
    write: (batch) => reports.write(batch),
    rules: () => rules.rules(),
    subscribe: (subscription) => rules.subscribe(subscription),
    unsubscribe: (id) => rules.unsubscribe(id),
    rewriteChannel: (id, from, to) => rules.rewriteChannel(id, from, to),
    silence: (silence) => rules.silence(silence),
    unsilence: (id) => rules.unsilence(id),
    take: (ask) => sending.take(ask),
    due: (ref, limit) => sending.due(ref, limit),
    proceed: (ref, step) => sending.proceed(ref, step),
    letGo: (ref) => sending.letGo(ref),
    replay: (id, job) => sending.replay(id, job),
    decisions: (query) => reads.decisions(query),
    notifications: (query) => reads.notifications(query),
    notification: (id) => reads.notification(id),
    countDead: () => reads.countDead(),
    subjects: (query) => reads.subjects(query),
    prune: (request) => reads.prune(request),
  }
}
