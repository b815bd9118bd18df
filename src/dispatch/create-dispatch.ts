import { setImmediate as nextTurn } from 'node:timers/promises'
import { Batcher } from '../core/batcher.ts'
import { SignalboxError } from '../core/errors.ts'
import { createId } from '../core/ids.ts'
import { duration, flag, oneOf, onlyKeys, text, whole } from '../core/options.ts'
import { cancelTopic, type NewJob, queueTopic } from '../jobs/index.ts'
import type { GuardStore } from '../once/index.ts'
import { type DispatchOptions, resolveDispatchOptions } from './dispatch-options.ts'
import { Engine, type EngineParts } from './engine.ts'
import { explainSteps, whyNotWaiting } from './explain-task.ts'
import { checkTerms } from './matching/terms.ts'
import { type NodeView, taskStatuses } from './node.ts'
import { countServices, type ServiceSight } from './service-counts.ts'
import { resolveSubmit, taskOfKey } from './tasks/submit-task.ts'
import type { CordonOptions, Dispatch, Submitted, Task, TaskTerms } from './tasks/task.ts'
import { decodeDocument, decodeTask, dispatchQueue, encodeTaskJob, eventOf } from './tasks/task-document.ts'
import { TaskReads } from './tasks/task-reads.ts'
import { inTime } from './time-limits.ts'

/** The parts of a dispatcher. */
export interface DispatchParts extends EngineParts {
  readonly guards: Pick<GuardStore, 'claim' | 'settle'>
}

/** How long `cancel` waits until the end is durable. */
const cancelWithinMs = 5_000
/** How long an operator's request waits for the cluster state. */
const lookWithinMs = 8_000
/** The most tasks of one write. */
const maxAdds = 500

/** Creates a dispatcher on this store. It claims no tasks and accepts no nodes before `start`. */
export function createDispatch(parts: DispatchParts, given: DispatchOptions = {}): Dispatch {
  const { jobs, notifier, guards } = parts
  const options = resolveDispatchOptions(given)
  const engine = new Engine(parts, options)
  const { registry, mailbox, connections, tally, claims, completer, feed, sharing } = engine
  const { cluster, settings, servers, demands } = sharing
  const reads = new TaskReads(engine)
  const adds = new Batcher<NewJob, void>({ maxItems: maxAdds, run: addAll })
  const { maxWaiting } = options.policy
  let stopping: Promise<void> | null = null
  let lastLook = { at: Number.NEGATIVE_INFINITY, done: Promise.resolve() }

  const dispatch: Dispatch = {
    async submit(asked) {
      const { terms, payload, idempotencyKey, fingerprint } = resolveSubmit(asked)
      if (stopping !== null) throw draining()
      // Without an await if there is capacity, so that later submits of the same turn count this one.
      if (tooMany(terms.tenant) !== null) await admit(terms.tenant)
      if (idempotencyKey === null) {
        const taskId = createId()
        await write(taskId, terms, payload)
        return { taskId, status: 'waiting', duplicate: false }
      }
      const exists = async (taskId: string) => (await reads.record(taskId)) !== undefined
      const { monotonicMs } = engine
      const parts = { guards, exists, write: (id: string) => write(id, terms, payload), monotonicMs }
      const keyed = await taskOfKey(parts, idempotencyKey, fingerprint)
      return statusOf(keyed)
    },

    task: (taskId) => reads.found(text('task.taskId', taskId)),

    async tasks(query = {}) {
      onlyKeys('tasks', query, ['status', 'limit', 'cursor'])
      return reads.page({
        status: query.status === undefined ? undefined : oneOf('tasks.status', query.status, taskStatuses),
        limit: whole('tasks.limit', query.limit ?? 50, { min: 1, max: 500 }),
        before: query.cursor === undefined ? undefined : text('tasks.cursor', query.cursor),
      })
    },

    watch: (taskId, { signal } = {}) => reads.watch(text('watch.taskId', taskId), signal),

    async cancel(taskId, { reason } = {}) {
      text('cancel.taskId', taskId)
      const why = reason === undefined ? null : text('cancel.reason', reason, { max: 1_000 })
      using watcher = feed.open(taskId)
      const before = await reads.mustFind(taskId)
      if (before.finishedAt !== null) return before
      const deadline = performance.now() + cancelWithinMs
      for (;;) {
        watcher.clear()
        // Repeated, because this process may be about to claim the task, or the task is between two attempts.
        mailbox.post({ kind: 'cancel', taskId, reason: why })
        if (claims.get(taskId) === undefined) await cancelInStore(taskId)
        const task = await reads.mustFind(taskId)
        if (task.finishedAt !== null || performance.now() >= deadline) return task
        await watcher.wait(claims.get(taskId)?.isEnding === false ? 1_000 : 100)
      }
    },

    async explain(taskId) {
      const record = await reads.record(text('explain.taskId', taskId))
      if (record === undefined) throw reads.notFound(taskId)
      const { payload: _, deadlineMs, ...terms } = decodeDocument(record)
      const { attempt, maxAttempts, createdAt } = record
      const deadlineAt = deadlineMs === null ? null : createdAt + deadlineMs
      const { kind } = record
      const spec = { ...terms, kind, taskId, attempt, maxAttempts, submittedAt: createdAt, deadlineAt }
      if (!engine.isStarted) await cluster.catchUp()
      const steps = explainSteps({ spec, nodes: sharing.nodes(), rules: settings.rules, now: engine.now() })
      for (;;) {
        const step = steps.next()
        if (step.done) {
          const notWaiting = whyNotWaiting(await reads.standing(record))
          return notWaiting === null ? step.value : { ...step.value, wakes: [notWaiting] }
        }
        await nextTurn()
      }
    },

    async look() {
      // A started dispatcher follows the cluster state by itself.
      if (!engine.isStarted) await inTime(lookWithinMs, () => cluster.catchUp())
    },
    nodes: () => [...sharing.nodes()],
    node: (nodeId) => sharing.node(text('node.nodeId', nodeId)),

    async drain(nodeId, how = {}) {
      onlyKeys('drain', how, ['on', 'deadlineMs'])
      const on = flag('drain.on', how.on ?? true)
      const span = how.deadlineMs ?? null
      const deadlineMs = span === null ? null : duration('drain.deadlineMs', span, { max: 86_400_000 })
      const { epoch } = await mustFindNode(text('drain.nodeId', nodeId))
      const deadlineAt = deadlineMs === null ? null : Math.round(cluster.storeNow + deadlineMs)
      await settings.drain(nodeId, on ? { epoch, deadlineAt } : null)
      return mustFindNode(nodeId)
    },

    async cordon(nodeId, options = {}) {
      const service = serviceToCordon('cordon', nodeId, options)
      await mustFindNode(nodeId)
      const isNew = !settings.isCordoned(nodeId, service)
      if (isNew && cluster.rows('cordon').size >= maxCordons) throw full(maxCordons, 'cordons', 'lift')
      await settings.cordon(nodeId, service, true)
    },

    async uncordon(nodeId, options = {}) {
      const service = serviceToCordon('uncordon', nodeId, options)
      await catchUp()
      // A cordon stays when its node is gone, so it can be lifted then too.
      if (!settings.isCordoned(nodeId, service)) await mustFindNode(nodeId)
      await settings.cordon(nodeId, service, false)
    },

    pools: () => registry.pools(),

    async definePool(pool) {
      onlyKeys('definePool', pool, ['name', 'requires'])
      const name = text('definePool.name', pool.name)
      const requires = checkTerms('definePool.requires', pool.requires)
      await catchUp()
      if (!settings.rules.has(name) && settings.rules.size >= maxPools)
        throw full(maxPools, 'pools', 'remove')
      await settings.definePool(name, requires)
    },

    async removePool(name) {
      text('removePool.name', name)
      mustBeOpen()
      return settings.removePool(name)
    },

    connections,
    counts: () => ({
      ...registry.counts(),
      ...tally,
      held: claims.size,
      unwritten: completer.size,
      connections: connections.size,
    }),
    serviceCounts: () => countServices(registry.tasks(), sharing.nodes(), engine.now()),
    service: (service) => countService(service),
    get ready() {
      return engine.isStarted && stopping === null && engine.fetcher.healthy && engine.leaseRenewer.healthy
    },
    start() {
      if (stopping !== null) throw draining()
      engine.start()
    },
    stop({ graceMs = 10_000 } = {}) {
      stopping ??= engine.stop(whole('stop.graceMs', graceMs))
      return stopping
    },
    [Symbol.asyncDispose]: () => dispatch.stop(),
  }
  return dispatch

  /** Counts the waiting tasks and the nodes of a service at all servers. */
  function countService(service: string): ServiceSight {
    const [here] = countServices(registry.tasks(), [], engine.now()).filter((one) => one.service === service)
    const elsewhere = servers.waitingElsewhere(service)
    const offers = [...sharing.nodes()]
      .filter(({ status }) => status !== 'gone')
      .flatMap(({ services }) => services.filter(({ name }) => name === service))
    return {
      service,
      waiting: (here?.waiting ?? 0) + elsewhere.waiting,
      oldestWaitMs: Math.max(here?.oldestWaitMs ?? 0, elsewhere.oldestWaitMs),
      nodes: offers.length,
      slots: offers.reduce((sum, { slots }) => sum + slots, 0),
      used: offers.reduce((sum, { used }) => sum + used, 0),
    }
  }

  /** Writes a task durably. The servers know its kind before the write, so that one of them claims the task. */
  async function write(taskId: string, terms: TaskTerms, payload: string): Promise<void> {
    engine.countSubmit(taskId)
    const kind = await demands.kindFor(terms)
    await adds.add(encodeTaskJob(taskId, terms, payload, kind))
    const counted = { id: taskId, queue: dispatchQueue, kind: terms.service }
    parts.activity?.added([counted], [{ id: taskId, duplicate: false }])
  }

  /** Writes tasks durably: the submits of one turn, or all that arrived during the write before. */
  async function addAll(batch: readonly NewJob[]): Promise<readonly void[]> {
    try {
      await jobs.add(batch)
    } catch (error) {
      // Whether the tasks are durable is unknown.
      for (const { id } of batch) engine.uncountSubmit(id)
      throw error
    }
    tally.submitted += batch.length
    if (engine.isStarted && servers.others.length === 0) engine.fetcher.wake()
    else notifier.wake(queueTopic(dispatchQueue))
    return []
  }

  /** Throws `too_many` before anything is written, if too many tasks wait as far as this process knows. */
  async function admit(tenant: string): Promise<void> {
    if (!engine.isStarted) {
      // A dispatcher without `start` does not follow the cluster state, so it reads it again before it refuses a task.
      const now = performance.now()
      if (now - lastLook.at >= rereadAfterMs) lastLook = { at: now, done: cluster.catchUp() }
      await lastLook.done
    }
    const retryAfterMs = tooMany(tenant)
    if (retryAfterMs === null) return
    throw new SignalboxError('too_many', `Too many tasks wait. Try again in ${retryAfterMs} ms.`, {
      details: { retryAfterMs },
    })
  }

  /** Whether too many tasks wait: the milliseconds after which to try again; null: there is capacity. */
  function tooMany(tenant: string): number | null {
    const { serverCount, waiting } = servers.elsewhere
    const isFull = registry.waitingCount + engine.submittedCount + waiting >= maxWaiting * (1 + serverCount)
    return registry.admission(tenant) ?? (isFull ? 1_000 : null)
  }

  async function statusOf(keyed: Omit<Submitted, 'status'>): Promise<Submitted> {
    if (!keyed.duplicate) return { ...keyed, status: 'waiting' }
    // A pruned task has ended and its outcome is unknown. The key still answers with its id.
    const task: Task | undefined = await reads.task(keyed.taskId)
    return { ...keyed, status: task?.status ?? 'completed' }
  }

  /** Cancels a task that this process does not hold. If another process holds it, requests its cancellation. */
  async function cancelInStore(taskId: string): Promise<void> {
    const answer = await jobs.cancel(taskId)
    if (answer?.cancelRequested) notifier.wake(cancelTopic)
    const record = await reads.record(taskId)
    if (record !== undefined && record.finishedAt !== null)
      feed.publish(eventOf(decodeTask(record), engine.now()))
  }

  /** Finds a node after a reading of the cluster state: it may have just connected to another server. */
  async function mustFindNode(nodeId: string): Promise<NodeView> {
    await catchUp()
    const node = sharing.node(nodeId)
    if (node !== undefined) return node
    throw new SignalboxError(
      'not_found',
      `There is no node "${nodeId}". It never connected, or it was forgotten.`,
    )
  }

  /** Reads the cluster state, so that an operator's request starts from the latest rows. */
  async function catchUp(): Promise<void> {
    mustBeOpen()
    await inTime(lookWithinMs, () => cluster.catchUp())
  }

  function mustBeOpen(): void {
    if (mailbox.isClosed) throw draining()
  }
}

/** Checks the arguments of `cordon` and `uncordon`. Returns the service; null: the whole node. */
function serviceToCordon(verb: string, nodeId: string, options: CordonOptions): string | null {
  onlyKeys(verb, options, ['service'])
  text(`${verb}.nodeId`, nodeId)
  return options.service == null ? null : text(`${verb}.service`, options.service)
}

const maxPools = 1_000
const maxCordons = 10_000
/** How often a dispatcher that only submits reads the cluster state again before it refuses a task. */
const rereadAfterMs = 1_000

function full(count: number, what: string, verb: string): SignalboxError {
  return new SignalboxError('too_many', `There are ${count} ${what}, which is the limit. First ${verb} one.`)
}

function draining(): SignalboxError {
  return new SignalboxError(
    'draining',
    'This dispatcher is stopping and accepts no more tasks. Try another server.',
  )
}
