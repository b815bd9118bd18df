/** Tasks as they are read: from the registry where this process has them, else from the store. */
import { SignalboxError } from '../core/errors.ts'
import type { JobRecord, JobStore } from '../jobs/index.ts'
import type { Engine } from './engine.ts'
import type { TaskStatus, TaskView } from './node.ts'
import type { Task, TaskEvent, TaskPage } from './task.ts'
import { decodeTask, dispatchQueue, eventOf } from './taskdocument.ts'
import { isEnd } from './tasksfeed.ts'

/** News of a task that is here come by themselves; the store is asked too, now and then, and for others often. */
const askEveryMs = { here: 5_000, elsewhere: 500 } as const

const statuses: Readonly<Record<TaskView['status'], TaskStatus>> = {
  waiting: 'waiting',
  requeued: 'waiting',
  assigned: 'assigned',
  running: 'running',
}

/** Reads of tasks. */
export class TaskReads {
  readonly #engine: Engine
  readonly #jobs: JobStore

  constructor(engine: Engine, jobs: JobStore) {
    this.#engine = engine
    this.#jobs = jobs
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
    if (record === undefined) return undefined
    // It may have come into this process's hands meanwhile; an end in the store is the last word all the same.
    const known = record.finishedAt === null ? this.#here(taskId) : undefined
    return known ?? decodeTask(record)
  }

  async mustFind(taskId: string): Promise<Task> {
    const task = await this.task(taskId)
    if (task === undefined) throw this.notFound(taskId)
    return task
  }

  async page(limit: number, before: string | undefined): Promise<TaskPage> {
    const query = { queue: dispatchQueue, limit: limit + 1, ...(before === undefined ? {} : { before }) }
    const records = await this.#jobs.list(query)
    const items = records.slice(0, limit).map((record) => {
      const here = record.finishedAt === null ? this.#here(record.id) : undefined
      return here ?? decodeTask(record)
    })
    return { items, cursor: records.length > limit ? items.at(-1)!.taskId : null }
  }

  async *watch(taskId: string, signal?: AbortSignal): AsyncGenerator<TaskEvent> {
    using watcher = this.#engine.feed.open(taskId)
    let told: TaskEvent | undefined
    while (!signal?.aborted) {
      const news = watcher.take() ?? (await this.#look(taskId, told, watcher))
      if (news !== undefined) {
        told = news
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

  /** The present state, if it is not what was told last. */
  async #look(
    taskId: string,
    told: TaskEvent | undefined,
    watcher: { clear(): void },
  ): Promise<TaskEvent | undefined> {
    const { now } = this.#engine
    const task = this.#here(taskId) ?? (await this.mustFind(taskId))
    // From here to the answer nothing can come between.
    if (task.finishedAt !== null || this.#engine.claims.get(taskId) !== undefined) watcher.clear()
    const event = eventOf(task, now())
    const status = told?.status === 'progress' ? 'running' : told?.status
    if (status === event.status && told?.attempt === event.attempt) return undefined
    return event
  }

  #here(taskId: string): Task | undefined {
    const { registry, claims } = this.#engine
    const claim = claims.get(taskId)
    if (claim === undefined) return undefined
    const view = registry.task(taskId)
    // Not in the books and in hand: it is on its way in, or its end is on its way to the store.
    const between = claim.isEnding ? 'running' : 'waiting'
    return {
      taskId,
      status: view === undefined ? between : statuses[view.status],
      attempt: claim.attempt,
      nodeId: view?.nodeId ?? null,
      service: claim.spec.service,
      output: null,
      error: null,
      submittedAt: claim.submittedAt,
      finishedAt: null,
    }
  }
}
