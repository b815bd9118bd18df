/** Reads and watches tasks: from the registry where this process has them, else from the store. */

import { SignalboxError } from '../../core/errors.ts'
import type { JobRecord, JobStore, LogStore } from '../../jobs/index.ts'
import type { Engine } from '../engine.ts'
import type { TaskStatus } from '../node.ts'
import type { Claim } from './claims.ts'
import type { FoundTask, Task, TaskEvent, TaskPage, TaskProgress } from './task.ts'
import { decodeFoundTask, decodeTask, dispatchQueue, eventOf } from './task-document.ts'
import { type SaidProgress, StoredProgress } from './task-progress.ts'

/** News of a task that is here come by themselves; the store is asked too, now and then, and for others often. */
const askEveryMs = { here: 5_000, elsewhere: 500 } as const

/** Job states of a task that waits or runs: held by a server, and not. */
const openStates = { waiting: ['running', 'ready', 'scheduled'], running: ['running'] } as const
/** Pages that one look for such tasks reads: where many are held it passes by those that wait, or those that run. */
const maxLooks = 20

export interface TaskQuery {
  readonly status: TaskStatus | undefined
  readonly limit: number
  readonly before: string | undefined
}

/** A task as it stands, and how far it is. */
type StandingTask = Task & Pick<FoundTask, 'progress'>

type ListedQuery = Omit<TaskQuery, 'status'> & { readonly state?: JobRecord['state'] }

/** Reads of tasks. */
export class TaskReads {
  readonly #engine: Engine
  readonly #jobs: JobStore
  readonly #noted: StoredProgress

  constructor(engine: Engine, jobs: JobStore, logs: Pick<LogStore, 'progress'>) {
    this.#engine = engine
    this.#jobs = jobs
    this.#noted = new StoredProgress(logs)
  }

  /** The job of a task; undefined for jobs of other queues too. */
  async record(taskId: string): Promise<JobRecord | undefined> {
    const record = await this.#jobs.find(taskId)
    return record?.queue === dispatchQueue ? record : undefined
  }

  async task(taskId: string): Promise<Task | undefined> {
    const here = this.#here(taskId)
    if (here !== undefined) return here
    const record = await this.record(taskId)
    // This process may have claimed it since it was read; an end in the store is final.
    return record && ((record.finishedAt === null ? this.#here(taskId) : undefined) ?? decodeTask(record))
  }

  /** With what it was submitted with. */
  async found(taskId: string): Promise<FoundTask | undefined> {
    const claim = this.#engine.claims.get(taskId)
    const here = this.#standing(taskId)
    if (claim !== undefined && here !== undefined) return { ...saidOf(claim), ...here }
    const record = await this.record(taskId)
    return record && { ...decodeFoundTask(record), ...(await this.standing(record)) }
  }

  /** How it stands wherever it is: of what other servers hold, as far as they wrote it down. */
  async standing(record: JobRecord): Promise<StandingTask> {
    const here = record.finishedAt === null ? this.#standing(record.id) : undefined
    if (here !== undefined) return here
    const task = decodeTask(record)
    const noted = await this.#noted.of(record)
    return noted === null ? { ...task, progress: null } : { ...task, status: 'running', ...noted }
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
      const news: TaskEvent | undefined =
        watcher.take() ?? (await this.#look(taskId, last, progress, watcher))
      if (news !== undefined) {
        last = news
        // Progress from before a change of state is never repeated after it.
        progress = news.status === 'progress' ? news : null
        yield news
        if (isEnd(news)) return
        continue
      }
      const isHere = this.#engine.registry.task(taskId) !== undefined
      await watcher.wait(isHere ? askEveryMs.here : askEveryMs.elsewhere, signal)
    }
  }

  notFound(taskId: string): SignalboxError {
    return new SignalboxError(
      'not_found',
      `There is no task "${taskId}": it was never submitted, or was pruned.`,
    )
  }

  /** The present state, unless it is the last event. */
  async #look(
    taskId: string,
    last: TaskEvent | undefined,
    progress: TaskProgress | null,
    watcher: { clear(): void },
  ): Promise<TaskEvent | undefined> {
    const { now } = this.#engine
    let task = this.#standing(taskId)
    if (task === undefined) {
      const stored = await this.#mustStand(taskId)
      // This process may have claimed it meanwhile, and what is cleared below is news of that.
      task = (stored.finishedAt === null ? this.#standing(taskId) : undefined) ?? stored
    }
    // From here to the answer nothing can come between.
    if (task.finishedAt !== null || this.#engine.claims.get(taskId) !== undefined) watcher.clear()
    const event = eventOf(task, now())
    const status = last?.status === 'progress' ? 'running' : last?.status
    if (status !== event.status || last?.attempt !== event.attempt) return event
    if (task.progress === null || isSame(task.progress, progress)) return undefined
    return { taskId, attempt: task.attempt, status: 'progress', nodeId: task.nodeId, ...task.progress }
  }

  async #mustStand(taskId: string): Promise<StandingTask> {
    const record = await this.record(taskId)
    if (record === undefined) throw this.notFound(taskId)
    return this.standing(record)
  }

  /** A page of tasks as they stand, at every server: for the whole page the progress is read at once. */
  async #pageOfAll({ limit, before, state }: ListedQuery): Promise<TaskPage> {
    const records = await this.#jobs.list({
      ...{ queue: dispatchQueue, limit: limit + 1 },
      ...(before === undefined ? {} : { before }),
      ...(state === undefined ? {} : { state }),
    })
    const shown = records.slice(0, limit)
    const standing = await Promise.all(shown.map((record) => this.standing(record)))
    const items = standing.map(({ progress: _, ...task }) => task)
    return { items, cursor: records.length > limit ? shown.at(-1)!.id : null }
  }

  /** Whatever runs, runs here. */
  get #isAlone(): boolean {
    return this.#engine.isStarted && this.#engine.sharing.servers.others.length === 0
  }

  /** What this process gave out it has in memory. Only this process knows that a node has not answered yet. */
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

  /** What has not ended is in one of a few states of its job; of those, the ones that stand so wherever they are. */
  async #pageOpen(
    status: keyof typeof openStates,
    limit: number,
    before: string | undefined,
  ): Promise<TaskPage> {
    const items: Task[] = []
    let from = before
    for (let looks = 0; looks < maxLooks; looks++) {
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
    const said = this.#engine.claims.get(taskId)?.progress ?? null
    return task && { ...task, progress: task.status === 'running' && said !== null ? progressOf(said) : null }
  }

  #here(taskId: string): Task | undefined {
    const { registry, claims } = this.#engine
    const claim = claims.get(taskId)
    if (claim === undefined) return undefined
    const view = registry.task(taskId)
    // Held and not in the registry: it is on its way in or back, or its end is on its way to the store.
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

/** Pages, each newest first, as one: no further than every page reaches, for beyond that some are unknown. */
export function mergePages(pages: readonly TaskPage[]): {
  readonly tasks: readonly Task[]
  readonly cursor: string | null
} {
  const ends = pages.flatMap(({ cursor }) => (cursor === null ? [] : [cursor]))
  const cursor = ends.length === 0 ? null : ends.reduce((a, b) => (a > b ? a : b))
  // One that changed its state between two of the reads is in both.
  const byId = new Map(pages.flatMap(({ items }) => items.map((task) => [task.taskId, task] as const)))
  const tasks = [...byId.values()]
    .filter(({ taskId }) => cursor === null || taskId >= cursor)
    .sort((a, b) => (a.taskId < b.taskId ? 1 : -1))
  return { tasks, cursor }
}

function progressOf({ percent, note, at }: SaidProgress): TaskProgress {
  return { percent, note, at }
}

function isSame(a: TaskProgress, b: TaskProgress | null): boolean {
  return a.at === b?.at && a.percent === b.percent && a.note === b.note
}

function saidOf({ spec, payload }: Claim): Omit<FoundTask, keyof StandingTask> {
  const { uses, requires, prefers, priority, tenant, session, idleMs, retryable } = spec
  const { deadlineAt, submittedAt } = spec
  const deadlineMs = deadlineAt === null ? null : deadlineAt - submittedAt
  return { uses, requires, prefers, payload, priority, tenant, session, deadlineMs, idleMs, retryable }
}

const maxQueued = 64
const ends: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

/** Whether nothing comes after it. */
export function isEnd({ status }: { readonly status: string }): boolean {
  return ends.has(status)
}

/**
 * A watcher of a task. One that does not keep up loses progress, never the end: newer progress replaces older, and a
 * queue that grows too long loses its oldest events.
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

  /** What came before the state was looked at is part of it. */
  clear(): void {
    this.#queue = []
  }

  /** Until something is there, or the time is over, or the signal aborts. */
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

  /** Watches; dispose of it when done. */
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
