import type { Meter } from '../../core/meter.ts'

/**
 * What the gate tells of its turns: each write by the name of its operation, the commit that a group shares, transactions
 * of handlers, and the times when another process had the file. Instants are those of `performance.now()`.
 */
export interface GateMeter {
  turn(name: string, begunAt: number, enteredAt: number, leftAt: number): void
}

export const commitName = 'commit'
export const transactionName = 'transaction'
/** Another process has the file. */
export const elsewhereName = 'elsewhere'

/** Tells a meter. Where the gate is in this thread, a turn stops it, but for one that goes on over awaits. */
export function createGateMeter(meter: Meter, isHere: boolean): GateMeter {
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

/** A turn as it crosses between threads; the instants in epoch milliseconds, for each thread counts from its own start. */
export type ToldTurn = readonly [name: string, begunAt: number, enteredAt: number, leftAt: number]

export function encodeTurn(name: string, begunAt: number, enteredAt: number, leftAt: number): ToldTurn {
  return [name, toEpoch(begunAt), toEpoch(enteredAt), toEpoch(leftAt)]
}

export function tellTurns(meter: GateMeter, turns: readonly ToldTurn[]): void {
  const origin = performance.timeOrigin
  for (const [name, begunAt, enteredAt, leftAt] of turns) {
    // The clocks of two threads agree to some microseconds; nobody has its turn before it came.
    const entered = Math.max(begunAt, enteredAt)
    meter.turn(name, begunAt - origin, entered - origin, Math.max(entered, leftAt) - origin)
  }
}

export function toEpoch(at: number): number {
  return performance.timeOrigin + at
}
