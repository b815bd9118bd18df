import type { Meter } from '../../../core/meter.ts'

/**
 * Measures the turns of the write queue: each write by the name of its operation, the commit that a group shares, transactions
 * of handlers, and the times when another process had the file. Instants are those of `performance.now()`.
 */
export interface WriteQueueMeter {
  turn(name: string, begunAt: number, enteredAt: number, leftAt: number): void
}

export const commitName = 'commit'
export const transactionName = 'transaction'
/** Another process has the file. */
export const elsewhereName = 'elsewhere'

/** Tells a meter. Where the write queue is in this thread, a turn stops it, but for one that goes on over awaits. */
export function createWriteQueueMeter(meter: Meter, isHere: boolean): WriteQueueMeter {
  const kinds = new Map<string, number>()
  const kindOf = (name: string): number => {
    const sync = isHere && name !== transactionName && name !== elsewhereName
    const kind = meter.kind(`sqlite.${name}`, { lane: 'sqlite', sync })
    kinds.set(name, kind)
    return kind
  }
  return {
    turn(name, begunAt, enteredAt, leftAt) {
      meter.turn(kinds.get(name) ?? kindOf(name), begunAt, enteredAt, leftAt)
    },
  }
}

/** Turns as they cross between threads: their names, and three instants of each in epoch milliseconds. */
export interface ReportedTurns {
  /** Apart by commas, of which no name has any. */
  readonly names: string
  /** When it was asked for, when it began, when it ended; each thread counts from its own start, so by the clock of all. */
  readonly instants: Float64Array
}

/** Keeps turns until they are told: one text and one row of numbers cross for a fraction of what lists of them would. */
export class TurnsToTell implements WriteQueueMeter {
  #names: string[] = []
  #instants: number[] = []

  turn(name: string, begunAt: number, enteredAt: number, leftAt: number): void {
    this.#names.push(name)
    this.#instants.push(toEpoch(begunAt), toEpoch(enteredAt), toEpoch(leftAt))
  }

  /** Those since the last time. */
  take(): ReportedTurns {
    const turns = { names: this.#names.join(), instants: new Float64Array(this.#instants) }
    this.#names = []
    this.#instants = []
    return turns
  }
}

export function tellTurns(meter: WriteQueueMeter, { names, instants }: ReportedTurns): void {
  if (names === '') return
  const origin = performance.timeOrigin
  for (const [index, name] of names.split(',').entries()) {
    const begunAt = instants[index * 3]!
    // The clocks of two threads differ by some microseconds; a turn cannot begin before its request.
    const entered = Math.max(begunAt, instants[index * 3 + 1]!)
    const left = Math.max(entered, instants[index * 3 + 2]!)
    meter.turn(name, begunAt - origin, entered - origin, left - origin)
  }
}

export function toEpoch(at: number): number {
  return performance.timeOrigin + at
}
