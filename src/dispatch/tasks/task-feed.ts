/**
 * Who watches which task. A watcher that does not keep up loses progress, never a change of state: progress is replaced
 * by the newer, and a line that grows too long loses its oldest part, never the end.
 */
import type { TaskEvent } from './task.ts'

const maxQueued = 64
const ends: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

/** Whether nothing comes after it. */
export function isEnd({ status }: { readonly status: string }): boolean {
  return ends.has(status)
}

/** One who watches a task. */
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

/** All who watch. */
export class TaskFeed {
  readonly #watchers = new Map<string, Set<Watcher>>()

  get size(): number {
    return this.#watchers.size
  }

  isWatched(taskId: string): boolean {
    return this.#watchers.has(taskId)
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
