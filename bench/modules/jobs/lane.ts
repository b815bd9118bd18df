/**
 * One library with one queue of no-op jobs, in the few words the trials need, so that a drain, a bulk add or a pick-up
 * is written once and every contestant is timed by the same lines. A job's payload is `{ number }`.
 */
export interface Lane extends AsyncDisposable {
  /** Adds one job for each number, in one call of the library's own bulk form. `filler` makes payloads larger, where a lane can. */
  addMany(numbers: readonly number[], filler?: string): Promise<void>
  add(number: number): Promise<void>
  /** Starts a worker that hands every job's number to `handle`, and whatever ends it early to `fail`. */
  work(handle: (number: number) => void | Promise<void>, fail: (error: unknown) => void): Promise<LaneWorker>
  /** Whether the store has settled all that was added. */
  isEmpty(): Promise<boolean>
}

export interface LaneWorker {
  stop(): Promise<void>
}

/** Opens a lane in a place; makes its tables when they are not there. */
export type OpenLane = (url: string) => Promise<Lane>

export function payloadOf(number: number, filler?: string): { number: number; filler?: string } {
  return filler === undefined ? { number } : { number, filler }
}

/** Counts jobs as they are handled. No job may come twice: without crashes there is no second delivery. */
export class Tally {
  readonly done: Promise<void>
  readonly handle: (number: number) => void
  readonly fail: (error: unknown) => void

  constructor(count: number) {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const seen = new Uint8Array(count)
    let left = count
    this.done = promise
    this.fail = reject
    this.handle = (number) => {
      if (!(number >= 0 && number < count) || seen[number] === 1) {
        reject(new Error(`Job ${number} of ${count} was handled twice or never added.`))
        return
      }
      seen[number] = 1
      if (--left === 0) resolve()
    }
  }
}

/** Waits until everything that was handled is settled as well. */
export async function untilEmpty(lane: Lane): Promise<void> {
  while (!(await lane.isEmpty())) await new Promise((wake) => setTimeout(wake, 1))
}

/**
 * Adds `count` jobs in pieces of 1,000 with four calls in flight: of 200 to 20,000 and one or four in flight that was
 * the quickest for every peer.
 */
export async function fill(lane: Pick<Lane, 'addMany'>, count: number): Promise<void> {
  let next = 0
  const adder = async (): Promise<void> => {
    while (next < count) {
      const from = next
      next = Math.min(count, from + 1_000)
      await lane.addMany(Array.from({ length: next - from }, (_, at) => from + at))
    }
  }
  await Promise.all([adder(), adder(), adder(), adder()])
}
