import { isSignalboxError } from '../../core/errors.ts'
import { encodeJson } from '../../core/json.ts'
import type { FailedSubject, Monitor, Report } from '../../monitor/index.ts'
import type { Client } from '../client/index.ts'
import { objectOf, withoutUndefined } from './encode.ts'

/** What a box on a server has of the monitor: all but sending, which the server does. */
export type RemoteMonitor = Omit<
  Monitor,
  'sender' | 'reconcile' | 'notification' | 'problems' | 'reseal' | typeof Symbol.asyncDispose
>

/** The verbs of the monitor on a server elsewhere. */
export function createRemoteMonitor(client: Client): RemoteMonitor {
  const { monitor: wire } = client
  return {
    async report(given) {
      const report = objectOf('report', given)
      const observedAt = instant(report.observedAt)
      const { sent, failed } = sortReport(report)
      const answer = await wire.report({ ...withoutUndefined(sent), observedAt })
      return answer.status === 'processed' ? { ...answer, failed: [...failed, ...answer.failed] } : answer
    },
    subscribe: async (options) => wire.subscribe(withoutUndefined(options)),
    unsubscribe: (id) => found(wire.unsubscribe(id)),
    subscriptions: () => wire.subscriptions(),
    async silence(given) {
      const { startsAt, ...options } = objectOf('silence', given)
      const from = startsAt === undefined ? {} : { startsAt: instant(startsAt) }
      return wire.silence({ ...withoutUndefined(options), ...from })
    },
    unsilence: (id) => found(wire.unsilence(id)),
    silences: () => wire.silences(),
    explain: async (options) => wire.explain(page(options)),
    decisions: async (options = {}) => wire.decisions(page(options)),
    notifications: async (options = {}) => wire.notifications(page(options)),
    replay: (id) => wire.replay(id),
    subjects: async (options = {}) => wire.subjects(page(options)),
    test: (channel) => wire.test(channel),
  }
}

function sortReport(report: Report): { readonly sent: Report; readonly failed: readonly FailedSubject[] } {
  if ('subjects' in report) {
    const { sendable, failed } = sortSubjects(report.subjects, 'subjects', 'subject')
    return { sent: { ...report, subjects: sendable }, failed }
  }
  const { sendable, failed } = sortSubjects(report.venues, 'venues', 'venueId')
  return { sent: { ...report, venues: sendable }, failed }
}

function instant(value: number | Date): number {
  return value instanceof Date ? value.getTime() : value
}

/** Whether there was such a thing; what else went wrong is thrown on. */
async function found(ended: Promise<void>): Promise<boolean> {
  try {
    await ended
    return true
  } catch (error) {
    if (isSignalboxError(error, 'not_found')) return false
    throw error
  }
}

function page<Options extends { readonly cursor?: string | null | undefined }>(given: Options) {
  const { cursor, ...options } = objectOf('options', given)
  return withoutUndefined({ ...options, ...(cursor === null ? {} : { cursor }) })
}

/**
 * Splits the subjects of a report into those that can be sent and those that cannot. A state that JSON would bend, or that
 * is too large for any store, fails here as it would there. A subject that failed once is not sent at all. `list` and
 * `field` are the words of the report's form.
 */
function sortSubjects<Item extends { readonly state: unknown }>(
  items: readonly Item[],
  list: string,
  field: keyof Item & ('subject' | 'venueId'),
): { readonly sendable: readonly Item[]; readonly failed: readonly FailedSubject[] } {
  // The server refuses what is no list at all.
  if (!Array.isArray(items)) return { sendable: items, failed: [] }
  const failed = new Map<unknown, FailedSubject>()
  for (const [index, item] of items.entries()) {
    try {
      encodeJson(`${list}[${index}].state`, item?.state)
    } catch (error) {
      const name: unknown = item?.[field]
      if (!isSignalboxError(error) || typeof name !== 'string') throw error
      const { code, message } = error
      failed.set(name, { [field]: name, error: { code, message } })
    }
  }
  const sendable = failed.size === 0 ? items : items.filter((item) => !failed.has(item?.[field]))
  return { sendable, failed: [...failed.values()] }
}
