import { invalidArgument, isSignalboxError, orUndefined, SignalboxError } from '../../core/errors.ts'
import { encodeJson } from '../../core/json.ts'
import { createNotifier } from '../../core/notifier.ts'
import { flag, show, text, whole } from '../../core/options.ts'
import type { Dispatch, NodeView, PoolView, TaskEvent } from '../../dispatch/index.ts'
import {
  holdLock,
  type LockCalls,
  type LockEvent,
  type Locks,
  runSingleFlight,
  Waits,
  type WatchOptions,
} from '../../locks/index.ts'
import type { FailedSubject, Monitor, Report } from '../../monitor/index.ts'
import { eventId, type Once, runOnce, runProcessing } from '../../once/index.ts'
import type { Client } from '../client/index.ts'
import { objectOf } from './remote-job-store.ts'

/** The monitor of a box on a server: all methods except sending, which the server does. */
export type RemoteMonitor = Omit<
  Monitor,
  'sender' | 'reconcile' | 'notification' | 'problems' | 'reseal' | typeof Symbol.asyncDispose
>

/** The methods of the monitor on a remote server. */
export function createRemoteMonitor(client: Client): RemoteMonitor {
  const { monitor: wire } = client
  return {
    ...wire,
    async report(given) {
      const report = objectOf('report', given)
      const observedAt = instant(report.observedAt)
      const { sent, failed } = sortReport(report)
      const answer = await wire.report({ ...sent, observedAt })
      return answer.status === 'processed' ? { ...answer, failed: [...failed, ...answer.failed] } : answer
    },
    unsubscribe: (id) => found(wire.unsubscribe(id)),
    async silence(options) {
      const { startsAt } = objectOf('silence', options)
      return wire.silence({ ...options, startsAt: startsAt === undefined ? undefined : instant(startsAt) })
    },
    unsilence: (id) => found(wire.unsilence(id)),
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

/** Whether the thing existed; false for `not_found`. */
async function found(ended: Promise<void>): Promise<boolean> {
  return (
    (await orUndefined(
      'not_found',
      ended.then(() => true),
    )) ?? false
  )
}

/**
 * Splits the subjects of a report into sendable ones and failures. A state that JSON would change, or that is too large
 * for any store, fails here as in process. If one state of a subject fails, the subject is not sent at all. `list` and
 * `field` are the names of the report's form.
 */
function sortSubjects<Item extends { readonly state: unknown }>(
  items: readonly Item[],
  list: string,
  field: keyof Item & ('subject' | 'venueId'),
): { readonly sendable: readonly Item[]; readonly failed: readonly FailedSubject[] } {
  // The server refuses a value that is not a list.
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

/** The guards of a box on a server: all methods, but no events. The counts are the server's. */
export interface RemoteOnce extends Omit<Once, 'stats' | 'events'> {
  /** The server's counts since it started. */
  stats(): Promise<ReturnType<Once['stats']>>
}

/**
 * The methods of guards on a remote server. If the server's store is down, the server's declared policy applies. If the
 * server itself cannot be reached, a call throws.
 */
export function createRemoteOnce(client: Client): RemoteOnce {
  const { once: wire } = client
  // Without an answer to `done`, the result does not count as stored.
  const parts = { whenDown: 'closed' } as const

  const once: RemoteOnce = {
    claim: async (key, options = {}) => wire.claim({ key, ...sendable('claim', options) }),
    async claimMany(keys, options = {}) {
      if (!Array.isArray(keys)) {
        throw invalidArgument(`claimMany takes a list of keys, not ${show(keys)}.`)
      }
      return wire.claimMany({ keys, ...sendable('claimMany', options) })
    },
    async done(key, token, result, options = {}) {
      // Refuses values that JSON would change, as in process.
      encodeJson('result', result)
      return wire.done({ key, token, result, ...sendable('done', options) })
    },
    fail: async (key, token, options = {}) => wire.fail({ key, token, ...sendable('fail', options) }),
    renew: async (key, token, leaseMs, options = {}) =>
      wire.renew({ key, token, leaseMs, ...sendable('renew', options) }),
    forget: async (key, options = {}) => wire.forget({ key, ...objectOf('forget', options) }),
    run: (key, fn, options = {}) => runOnce(once, key, fn, options, parts),
    processing: (taskId, fn, options = {}) => runProcessing(once, taskId, fn, options, parts),
    async seen(sighting, options = {}) {
      const { state = null, ...rest } = objectOf('seen', sighting)
      encodeJson('seen.state', state)
      encodeJson('seen.from', rest.from)
      return wire.seen({ ...rest, state, ...sendable('seen', options) })
    },
    eventId,
    stats: wire.stats,
    list: wire.list,
    async [Symbol.asyncDispose]() {
      // This process keeps no state.
    },
  }
  return once
}

/** The options without a transaction, which cannot work over HTTP. */
function sendable<Options extends { readonly tx?: unknown }>(call: string, given: Options) {
  const { tx, ...options } = objectOf(`${call}.options`, given)
  if (tx === undefined) return options
  throw new SignalboxError(
    'transaction_unsupported',
    `once.${call} got a tx, and a transaction cannot be sent to a server. Open the database itself.`,
  )
}

/** Dispatch of a box on a server: tasks, and the views of operators, which are requests to the server. */
export interface RemoteDispatch
  extends Pick<
    Dispatch,
    | 'submit'
    | 'task'
    | 'tasks'
    | 'watch'
    | 'cancel'
    | 'explain'
    | 'drain'
    | 'cordon'
    | 'uncordon'
    | 'definePool'
    | 'removePool'
  > {
  /** Reads all nodes. */
  nodes(): Promise<readonly NodeView[]>
  node(nodeId: string): Promise<NodeView | undefined>
  pools(): Promise<readonly PoolView[]>
}

const pageSize = 500
/** The most events that wait for the reader. Above the limit, progress is dropped first. */
const maxWaiting = 64

/** The methods of dispatch on a remote server. */
export function createRemoteDispatch(client: Client): RemoteDispatch {
  const { dispatch: wire } = client
  return {
    ...wire,
    async submit(options) {
      // Refuses values that JSON would change, as in process.
      encodeJson('payload', objectOf('submit', options).payload)
      return wire.submit(options)
    },
    task: (taskId) => orUndefined('not_found', wire.task(taskId)),
    watch: (taskId, { signal } = {}) => watchTask(client, taskId, signal),
    async nodes() {
      const all: NodeView[] = []
      let cursor: string | null | undefined
      do {
        const page = await wire.nodes({ limit: pageSize, cursor })
        all.push(...page.items)
        cursor = page.cursor
      } while (cursor !== null)
      return all
    },
    node: async (nodeId) => (await wire.nodes({ nodeId: text('nodeId', nodeId) })).items[0],
    cordon: async (nodeId, options = {}) => wire.cordon(nodeId, objectOf('cordon', options)),
    uncordon: async (nodeId, options = {}) => wire.uncordon(nodeId, objectOf('uncordon', options)),
    pools: async () => (await wire.pools()).items,
    async definePool(pool) {
      await wire.definePool(pool)
    },
  }
}

async function* watchTask(
  client: Client,
  taskId: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<TaskEvent, void, undefined> {
  signal?.throwIfAborted()
  yield* iterateStream<TaskEvent>({
    signal,
    read: (seen, until) =>
      client.dispatch.watch(taskId, ({ type: status, ...data }) => seen({ status, ...data } as TaskEvent), {
        signal: until,
      }),
    keep(waiting, event) {
      if (event.status === 'progress' && waiting.at(-1)?.status === 'progress') waiting.pop()
      if (waiting.push(event) > maxWaiting) waiting.shift()
    },
  })
  signal?.throwIfAborted()
}

interface StreamIteration<Event> {
  /** Ends the iteration. */
  readonly signal: AbortSignal | undefined
  /** Reads the stream until it ends or the signal aborts. */
  read(seen: (event: Event) => void, signal: AbortSignal): Promise<void>
  /** Queues an event for the reader. If it throws, the stream ends with that error. */
  keep(waiting: Event[], event: Event): void
}

/** Iterates over the events of a client's stream. When the iteration ends, so does the stream. */
async function* iterateStream<Event>({
  signal,
  read,
  keep,
}: StreamIteration<Event>): AsyncGenerator<Event, void, undefined> {
  const over = new AbortController()
  const until = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal])
  const notifier = createNotifier()
  const waiting: Event[] = []
  let end: { readonly error?: unknown } | undefined
  const seen = (event: Event) => {
    keep(waiting, event)
    notifier.wake()
  }
  const ended = (how: { readonly error?: unknown }) => {
    end = how
    notifier.wake()
  }
  const reading = read(seen, until).then(
    () => ended({}),
    (error: unknown) => ended({ error }),
  )
  try {
    while (!until.aborted) {
      const event = waiting.shift()
      if (event !== undefined) yield event
      else if (end === undefined) await notifier.wait({ signal: until }).catch(() => undefined)
      else if ('error' in end) throw end.error
      else return
    }
  } finally {
    over.abort()
    await reading
  }
}

/**
 * The methods of locks on a remote server. A held lock renews itself over HTTP. This process decides by its own clock
 * when a lock is lost, even without a connection.
 */
export function createRemoteLocks(client: Client): Locks {
  const closing = new AbortController()
  const { locks: wire } = client
  const waits = new Waits()

  const locks: Locks = {
    ...wire,
    acquire: (options) => wire.acquire(options),
    watch: (options) => watch(client, options, closing.signal),
    singleFlight: (operation, resource, options) => runSingleFlight(place, operation, resource, options),
    hold: (operation, resource, options) => holdLock(place, operation, resource, options),
    async [Symbol.asyncDispose]() {
      const left = waits.end()
      closing.abort()
      await left
    },
  }
  const place: LockCalls = { ...locks, acquire: wire.acquire, waits }
  return locks
}

/** The most events that may wait for the reader. */
const maxEvents = 1_000

async function* watch(
  client: Client,
  options: WatchOptions,
  closing: AbortSignal,
): AsyncGenerator<LockEvent> {
  const { signal, lastEventId, bind } = objectOf('watch', options)
  if (lastEventId !== undefined) whole('watch.lastEventId', lastEventId)
  if (bind !== undefined) flag('watch.bind', bind)
  yield* iterateStream<LockEvent>({
    signal: signal === undefined ? closing : AbortSignal.any([closing, signal]),
    read: (seen, until) =>
      client.locks.watch({ ...options, signal: until }, (event) => seen(event as unknown as LockEvent)),
    keep(waiting, event) {
      if (waiting.push(event) > maxEvents) throw tooSlow()
    },
  })
}

function tooSlow(): SignalboxError {
  return new SignalboxError(
    'too_many',
    `${maxEvents} events of a wait queue wait to be read. Read faster, or watch again from the last event seen.`,
  )
}
