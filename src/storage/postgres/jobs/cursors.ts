import type { ClaimedRecord, NewJob, Verdict } from '../../../jobs/index.ts'
import { Cursor, type Position, start } from './cursor.ts'

/**
 * The cursors of one namespace, by queue and kinds: whoever wants other kinds has not seen what this one passed over.
 * Forgotten altogether when there are too many: queue names may come and go.
 */
export class Cursors {
  readonly #cursors = new Map<string, { readonly queue: string; readonly cursor: Cursor }>()

  /** Where to begin in each of the queues. */
  from(queues: readonly string[], kinds: Kinds): readonly Position[] {
    const now = performance.now()
    return queues.map((queue) => this.#cursors.get(keyOf(queue, kinds))?.cursor.from(now) ?? start)
  }

  /** A claim that began at `from` took these, in that time; `isFull`: as many as it asked for. */
  took(
    queues: readonly string[],
    kinds: Kinds,
    from: readonly Position[],
    jobs: readonly ClaimedRecord[],
    { tookMs, isFull }: { readonly tookMs: number; readonly isFull: boolean },
  ): void {
    const now = performance.now()
    if (this.#cursors.size > 1_000) this.#cursors.clear()
    for (const [nr, queue] of queues.entries()) {
      const ofQueue = queues.length === 1 ? jobs : jobs.filter((job) => job.queue === queue)
      if (ofQueue.length === 0) continue
      const key = keyOf(queue, kinds)
      const { cursor } = this.#cursors.get(key) ?? { cursor: new Cursor() }
      this.#cursors.set(key, { queue, cursor })
      cursor.took(from[nr]!, ofQueue, { tookMs, isFull, now })
    }
  }

  /** The next claim of these begins at the start. */
  reset(queues: readonly string[], kinds: Kinds): void {
    for (const queue of queues) this.#cursors.get(keyOf(queue, kinds))?.cursor.reset()
  }

  /** Something went back in line, perhaps before a remembered place. */
  forget(): void {
    this.#cursors.clear()
  }

  /** A verdict on this job brought it back in line; one that is not known may belong anywhere. */
  wentBack(job: ClaimedRecord | undefined, { state, delayMs }: Pick<Verdict, 'state' | 'delayMs'>): void {
    if (job === undefined) {
      this.forget()
      return
    }
    for (const { queue, cursor } of this.#cursors.values()) {
      if (queue !== job.queue) continue
      if (state === 'ready') cursor.wentBack(job)
      else cursor.added({ ...job, due: { delayMs } })
    }
  }

  added(jobs: readonly NewJob[]): void {
    if (this.#cursors.size === 0) return
    for (const { queue, cursor } of this.#cursors.values()) {
      for (const job of jobs) if (job.queue === queue) cursor.added(job)
    }
  }
}

type Kinds = readonly string[] | null

function keyOf(queue: string, kinds: Kinds): string {
  return JSON.stringify([queue, kinds])
}
