import type { MonitorStore } from '../../../monitor/monitor-store.ts'
import { type Connection, readNow } from '../connection/connection.ts'
import type { Reader } from '../connection/reader.ts'
import type { Writer } from '../writing/writer.ts'
import {
  countDead,
  findNotification,
  listDecisions,
  listNotifications,
  listSubjects,
} from './monitor-reads.ts'
import { readKnown } from './monitor-report.ts'
import { readRules } from './monitor-rules.ts'
import { readDue } from './monitor-sending.ts'
import { type MonitorStep, type MonitorSteps, mayPruneMonitor } from './monitor-steps.ts'

/**
 * The monitor of one namespace in SQLite: steps go to the writer, by name and in plain data. What is read to be decided
 * on goes to the reader like all looking, because the step that follows compares versions.
 */
export interface SqliteMonitorOptions {
  readonly namespace: string
  readonly writer: Writer
  readonly reader: Reader
  /** Throws when the store was closed. */
  check(): void
}

export function createSqliteMonitor({
  namespace,
  writer,
  reader,
  check,
}: SqliteMonitorOptions): MonitorStore {
  const step =
    <Name extends keyof MonitorSteps>(name: Name) =>
    async (...args: Parameters<MonitorSteps[Name]>): Promise<ReturnType<MonitorSteps[Name]>> => {
      check()
      // Steps are told apart by their name, which comes with its own arguments and has its own answer.
      const call = [name, args] as unknown as MonitorStep
      const answer = await writer.write({ operation: 'monitor', namespace, args: call })
      return answer as ReturnType<MonitorSteps[Name]>
    }
  const read =
    <Args extends unknown[], Value>(
      look: (connection: Connection, namespace: string, ...args: Args) => Value,
    ) =>
    async (...args: Args): Promise<Value> => {
      check()
      return reader.read((connection) => look(connection, namespace, ...args))
    }
  const mayPrune = read((connection, name, olderThanMs: number) =>
    mayPruneMonitor(connection, name, readNow(connection) - olderThanMs),
  )
  const prune = step('prune')
  return {
    known: read(readKnown),
    write: step('write'),
    rules: read(readRules),
    subscribe: step('subscribe'),
    unsubscribe: step('unsubscribe'),
    rewriteChannel: step('rewriteChannel'),
    silence: step('silence'),
    unsilence: step('unsilence'),
    take: step('take'),
    due: read(readDue),
    proceed: step('proceed'),
    letGo: step('letGo'),
    decisions: read(listDecisions),
    notifications: read(listNotifications),
    notification: read(findNotification),
    countDead: read(countDead),
    subjects: read(listSubjects),
    replay: step('replay'),
    // Nearly always there is nothing to do, and then nobody needs the writer.
    prune: async (request) => ((await mayPrune(request.olderThanMs)) ? prune(request) : 0),
  }
}
