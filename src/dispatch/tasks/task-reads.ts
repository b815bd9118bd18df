/** Reads and watches tasks: from the registry if this process holds them, otherwise from the store. */

import { SignalboxError } from '../../core/errors.ts'
import type { JobRecord } from '../../jobs/index.ts'
import type { Engine } from '../engine.ts'
import type { TaskStatus } from '../node.ts'
import type { Claim } from './claims.ts'
import type { FoundTask, Task, TaskEvent, TaskPage, TaskProgress } from './task.ts'
import { decodeFoundTask, decodeTask, dispatchQueue, eventOf } from './task-document.ts'
import { type ReportedProgress, StoredProgress } from './task-progress.ts'

/** How often a watcher reads the store. Changes of tasks that this process holds also arrive as events. */
const pollMs = { here: 5_000, elsewhere: 500 } as const

/** The job states that a waiting or running task may have. */
const openStates = { waiting: ['running', 'ready', 'scheduled'], running: ['running'] } as const
/** How many pages one search for such tasks reads: a page may contain few tasks of the wanted status. */
const maxPages = 20

export interface TaskQuery {
  readonly status: TaskStatus | undefined
  readonly limit: number
  readonly before: string | undefined
}

/** A task with its present status and its progress. */
type StandingTask = Task & Pick<FoundTask, 'progress'>

type ListedQuery = Omit<TaskQuery, 'status'> & { readonly state?: JobRecord['state'] }

/** Reads of tasks. */
export class TaskReads {
  readonly #engine: Engine
  readonly #storedProgress: StoredProgress

  constructor(engine: Engine) {
    this.#engine = engine
    this.#storedProgress = new StoredProgress(engine.logs)
  }

  /** Finds the job of a task; undefined also for jobs of other queues. */
  async record(taskId: string): Promise<JobRecord | undefined> {
    const record = await this.#engine.jobs.find(taskId)
    return record?.queue === dispatchQueue ? record : undefined
  }

  async task(taskId: string): Promise<Task | undefined> {
    const here = this.#here(taskId)
    if (here !== undefined) return here
    const record = await this.record(taskId)
    // This process may have claimed the task since the read. An end in the store is final.
    return record && ((record.finishedAt === null ? this.#here(taskId) : undefined) ?? decodeTask(record))
  }

  /** Finds a task with its submit options. */
  async found(taskId: string): Promise<FoundTask | undefined> {
    const claim = this.#engine.claims.get(taskId)
    const here = this.#standing(taskId)
    if (claim !== undefined && here !== undefined) return { ...submittedWith(claim), ...here }
    const record = await this.record(taskId)
    return record && { ...decodeFoundTask(record), ...(await this.standing(record)) }
  }

  /** The present status of a task at any server. For a task of another server: as far as that server has written it. */
  async standing(record: JobRecord): Promise<StandingTask> {
    const here = record.finishedAt === null ? this.#standing(record.id) : undefined
    if (here !== undefined) return here
    const task = decodeTask(record)
    const running = await this.#storedProgress.of(record)
    return running === null ? { ...task, progress: null } : { ...task, status: 'running', ...running }
  }

  async mustFind(taskId: string): Promise<Task> {
    const task = await this.task(taskId)
    if (task === undefined) throw this.notFound(taskId)
    return task
  }

  async page({ status, limit, before }: TaskQuery): Promise<TaskPage> {
    switch (status) {
      case undefined:
        return this.#pageOfAll({ limit, before })
      case 'assigned':
        return this.#pageHere(status, limit, before)
      case 'running':
        return this.#isAlone ? this.#pageHere(status, limit, before) : this.#pageOpen(status, limit, before)
      case 'waiting':
        return this.#pageOpen(status, limit, before)
      default:
        return this.#pageOfAll({ limit, before, state: status === 'failed' ? 'dead' : status })
    }
  }

  async *watch(taskId: string, signal?: AbortSignal): AsyncGenerator<TaskEvent> {
    using watcher = this.#engine.feed.open(taskId)
    let last: TaskEvent | undefined
    let progress: TaskProgress | null = null
    while (!signal?.aborted) {
      const event: TaskEvent | undefined =
        watcher.take() ?? (await this.#readChange(taskId, last, progress, watcher))
      if (event !== undefined) {
        last = event
        // Progress from before a change of status is never repeated after it.
        progress = event.status === 'progress' ? event : null
        yield event
        if (isEnd(event)) return
        continue
      }
      const isHere = this.#engine.registry.task(taskId) !== undefined
      await watcher.wait(isHere ? pollMs.here : pollMs.elsewhere, signal)
    }
  }

  notFound(taskId: string): SignalboxError {
    return new SignalboxError(
      'not_found',
      `There is no task "${taskId}": it was never submitted, or was pruned.`,
    )
  }

  /** Reads the present status. Undefined: it is the same as in the last event. */
  async #readChange(
    taskId: string,
    last: TaskEvent | undefined,
    progress: TaskProgress | null,
    watcher: { clear(): void },
  ): Promise<TaskEvent | undefined> {
    const { now } = this.#engine
    let task = this.#standing(taskId)
    if (task === undefined) {
      const stored = await this.#mustFindStanding(taskId)
      // This process may have claimed the task during the read. Then the events that are cleared below belong to the
      // claim.
      task = (stored.finishedAt === null ? this.#standing(taskId) : undefined) ?? stored
    }
    // No event can arrive between here and the answer.
    if (task.finishedAt !== null || this.#engine.claims.get(taskId) !== undefined) watcher.clear()
    const event = eventOf(task, now())
    const status = last?.status === 'progress' ? 'running' : last?.status
    if (status !== event.status || last?.attempt !== event.attempt) return event
    if (task.progress === null || isSame(task.progress, progress)) return undefined
    return { taskId, attempt: task.attempt, status: 'progress', nodeId: task.nodeId, ...task.progress }
  }

  async #mustFindStanding(taskId: string): Promise<StandingTask> {
    const record = await this.record(taskId)
    if (record === undefined) throw this.notFound(taskId)
    return this.standing(record)
  }

  /** A page of tasks of all servers with their present status. One read fetches the progress of the whole page. */
  async #pageOfAll({ limit, before, state }: ListedQuery): Promise<TaskPage> {
    const records = await this.#engine.jobs.list({
      ...{ queue: dispatchQueue, limit: limit + 1 },
      ...(before === undefined ? {} : { before }),
      ...(state === undefined ? {} : { state }),
    })
    const shown = records.slice(0, limit)
    const standing = await Promise.all(shown.map((record) => this.standing(record)))
    const items = standing.map(({ progress: _, ...task }) => task)
    return { items, cursor: records.length > limit ? shown.at(-1)!.id : null }
  }

  /** No other server runs tasks. */
  get #isAlone(): boolean {
    return this.#engine.isStarted && this.#engine.sharing.servers.others.length === 0
  }

  /** A page of the tasks that this process holds. Only this process knows that a node has not accepted a task yet. */
  #pageHere(status: TaskStatus, limit: number, before: string | undefined): TaskPage {
    const ids = Array.from(this.#engine.claims.values(), ({ jobId }) => jobId)
    const items: Task[] = []
    for (const id of ids.sort().reverse()) {
      if (before !== undefined && id >= before) continue
      const task = this.#here(id)
      if (task?.status !== status) continue
      if (items.length === limit) return { items, cursor: items.at(-1)!.taskId }
      items.push(task)
    }
    return { items, cursor: null }
  }

  /** A page of waiting or running tasks of all servers: reads jobs in the possible states and filters by status. */
  async #pageOpen(
    status: keyof typeof openStates,
    limit: number,
    before: string | undefined,
  ): Promise<TaskPage> {
    const items: Task[] = []
    let from = before
    for (let pageCount = 0; pageCount < maxPages; pageCount++) {
      const pages = await Promise.all(
        openStates[status].map((state) => this.#pageOfAll({ limit, before: from, state })),
      )
      const { tasks, cursor } = mergePages(pages)
      for (const task of tasks) {
        if (task.status !== status) continue
        items.push(task)
        if (items.length === limit) return { items, cursor: task.taskId }
      }
      if (cursor === null) return { items, cursor }
      from = cursor
    }
    return { items, cursor: from ?? null }
  }

  #standing(taskId: string): StandingTask | undefined {
    const task = this.#here(taskId)
    const last = this.#engine.claims.get(taskId)?.progress ?? null
    return task && { ...task, progress: task.status === 'running' && last !== null ? progressOf(last) : null }
  }

  #here(taskId: string): Task | undefined {
    const { registry, claims } = this.#engine
    const claim = claims.get(taskId)
    if (claim === undefined) return undefined
    const view = registry.task(taskId)
    // A held task is not in the registry while it is submitted or handed back, or while its end is being written.
    const between: Pick<Task, 'status' | 'nodeId'> =
      claim.isEnding && claim.nodeId !== null
        ? { status: 'running', nodeId: claim.nodeId }
        : { status: 'waiting', nodeId: null }
    return {
      taskId,
      attempt: claim.attempt,
      ...(view === undefined ? between : { status: view.status, nodeId: view.nodeId }),
      service: claim.spec.service,
      output: null,
      error: null,
      submittedAt: claim.submittedAt,
      finishedAt: null,
    }
  }
}

/**
 * Merges pages, each newest first. The result ends where the shortest page ends, because tasks beyond it are unknown.
 */
export function mergePages(pages: readonly TaskPage[]): {
  readonly tasks: readonly Task[]
  readonly cursor: string | null
} {
  const ends = pages.flatMap(({ cursor }) => (cursor === null ? [] : [cursor]))
  const cursor = ends.length === 0 ? null : ends.reduce((a, b) => (a > b ? a : b))
  // A task that changed its state between two reads is in both pages.
  const byId = new Map(pages.flatMap(({ items }) => items.map((task) => [task.taskId, task] as const)))
  const tasks = [...byId.values()]
    .filter(({ taskId }) => cursor === null || taskId >= cursor)
    .sort((a, b) => (a.taskId < b.taskId ? 1 : -1))
  return { tasks, cursor }
}

function progressOf({ percent, note, at }: ReportedProgress): TaskProgress {
  return { percent, note, at }
}

function isSame(a: TaskProgress, b: TaskProgress | null): boolean {
  return a.at === b?.at && a.percent === b.percent && a.note === b.note
}

function submittedWith({ spec, payload }: Claim): Omit<FoundTask, keyof StandingTask> {
  const { uses, requires, prefers, priority, tenant, session, idleMs, retryable } = spec
  const { deadlineAt, submittedAt } = spec
  const deadlineMs = deadlineAt === null ? null : deadlineAt - submittedAt
  return { uses, requires, prefers, payload, priority, tenant, session, deadlineMs, idleMs, retryable }
}

const maxQueued = 64
const ends: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

/** Whether an event is the last of its task. */
export function isEnd({ status }: { readonly status: string }): boolean {
  return ends.has(status)
}

/**
 * A watcher of a task. A slow watcher loses progress, never the end: newer progress replaces older, and a queue that is
 * too long loses its oldest events.
 */
export class Watcher {
  #queue: TaskEvent[] = []
  #wake: (() => void) | null = null

  push(event: TaskEvent): void {
    if (event.status === 'progress' && this.#queue.at(-1)?.status === 'progress') this.#queue.pop()
    this.#queue.push(event)
    if (this.#queue.length > maxQueued) this.#queue.shift()
    this.#wake?.()
  }

  take(): TaskEvent | undefined {
    return this.#queue.shift()
  }

  /** Drops queued events. The caller has read a status that includes them. */
  clear(): void {
    this.#queue = []
  }

  /** Waits for an event, the timeout, or the signal. */
  wait(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    if (this.#queue.length > 0 || signal?.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        this.#wake = null
        resolve()
      }
      const timer = setTimeout(done, timeoutMs)
      signal?.addEventListener('abort', done)
      this.#wake = done
    })
  }
}

/** All watchers, by task. */
export class TaskFeed {
  readonly #watchers = new Map<string, Set<Watcher>>()

  get size(): number {
    return this.#watchers.size
  }

  publish(event: TaskEvent): void {
    const watchers = this.#watchers.get(event.taskId)
    if (watchers !== undefined) for (const watcher of watchers) watcher.push(event)
  }

  /** Opens a watcher. The caller disposes it. */
  open(taskId: string): Watcher & Disposable {
    const watcher = new Watcher() as Watcher & Disposable
    const watchers = this.#watchers.get(taskId) ?? new Set()
    this.#watchers.set(taskId, watchers.add(watcher))
    watcher[Symbol.dispose] = () => {
      watchers.delete(watcher)
      if (watchers.size === 0 && this.#watchers.get(taskId) === watchers) this.#watchers.delete(taskId)
    }
    return watcher
  }
}
