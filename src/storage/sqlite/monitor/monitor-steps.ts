import type { MonitorStore } from '../../../monitor/monitor-store.ts'
import type { Connection } from '../connection/connection.ts'
import { writeReport } from './monitor-report.ts'
import { rewriteChannel, silence, subscribe, unsilence, unsubscribe } from './monitor-rules.ts'
import { letGo, proceed, replay, takeChannel } from './monitor-sending.ts'

type Step =
  | 'write'
  | 'subscribe'
  | 'unsubscribe'
  | 'rewriteChannel'
  | 'silence'
  | 'unsilence'
  | 'take'
  | 'proceed'
  | 'letGo'
  | 'replay'
  | 'prune'

/** The steps of the monitor that write, as they are asked for: each in the transaction that the connection is in. */
export type MonitorSteps = {
  [Name in Step]: (...args: Parameters<MonitorStore[Name]>) => Awaited<ReturnType<MonitorStore[Name]>>
}

/** One step by name, in plain data. */
export type MonitorStep = {
  [Name in Step]: [name: Name, args: Parameters<MonitorStore[Name]>]
}[Step]

export function takeMonitorStep(
  connection: Connection,
  namespace: string,
  [name, args]: MonitorStep,
  now: number,
): ReturnType<MonitorSteps[Step]> {
  switch (name) {
    case 'write':
      return writeReport(connection, namespace, args[0], now)
    case 'subscribe':
      return subscribe(connection, namespace, args[0], now)
    case 'unsubscribe':
      return unsubscribe(connection, namespace, args[0], now)
    case 'rewriteChannel':
      return rewriteChannel(connection, namespace, args[0], { from: args[1], to: args[2] })
    case 'silence':
      return silence(connection, namespace, args[0], now)
    case 'unsilence':
      return unsilence(connection, namespace, args[0])
    case 'take':
      return takeChannel(connection, namespace, args[0], now)
    case 'proceed':
      return proceed(connection, namespace, args[0], args[1], now)
    case 'letGo':
      return letGo(connection, namespace, args[0], now)
    case 'replay':
      return replay(connection, namespace, args[0], args[1], now)
    case 'prune':
      return pruneMonitor(connection, namespace, args[0].limit, now - args[0].olderThanMs)
  }
}

/** What is older than an instant, by table. Each has an index by its time, but for silences, which are few. */
const over = [
  { from: `monitor_decision WHERE namespace = ?1 AND decided_at < ?2`, key: 'id' },
  {
    from: `monitor_notification WHERE namespace = ?1 AND finished_at < ?2 AND finished_at IS NOT NULL`,
    key: 'id',
  },
  {
    from: `monitor_window WHERE namespace = ?1 AND ends_at < ?2 AND status = 'notified'`,
    key: 'subject, subscription_id, state_hash',
  },
  { from: `monitor_silence WHERE namespace = ?1 AND ends_at < ?2`, key: 'id' },
]

/** Whether `prune` would find anything. Asked of a reader. */
export function mayPruneMonitor(connection: Connection, namespace: string, before: number): boolean {
  return over.some(
    ({ from }) => connection.get(`SELECT 1 FROM ${from} LIMIT 1`, namespace, before) !== undefined,
  )
}

function pruneMonitor(connection: Connection, namespace: string, limit: number, before: number): number {
  let count = 0
  for (const { from, key } of over) {
    const [table] = from.split(' ')
    count += connection.run(
      `DELETE FROM ${table} WHERE namespace = ?1 AND (${key}) IN (SELECT ${key} FROM ${from} LIMIT ?3)`,
      ...[namespace, before, limit],
    )
  }
  return count
}
