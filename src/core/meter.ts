/**
 * Modules and stores report their waits and turns to a meter (src/contention). Its calls are cheap and never throw; `noMeter`
 * does nothing. Instants are those of `performance.now()`.
 *
 *     begin ──▶ waits in its lane ──▶ enter ──▶ has its turn ──▶ leave
 */
export interface Meter {
  /** The number of a kind of command; the same name gives the same number. Names are ours, never a user's data. */
  kind(name: string, traits?: KindTraits): number
  /** A wait begins. `what` is shown to operators with the slowest turns. */
  begin(kind: number, what?: string): Ticket
  /** The turn begins. */
  enter(ticket: Ticket): void
  /** The turn is over; or, without a turn, the wait ended. */
  leave(ticket: Ticket): void
  /** The same after the fact, for callers that keep the instants anyway. */
  turn(kind: number, begunAt: number, enteredAt: number, leftAt: number, what?: string): void
  /** The number of waiters in a lane that reports its turns after the fact. */
  depth(lane: string, waiting: number): void
}

/** Identifies a wait and its turn. */
export type Ticket = number

export interface KindTraits {
  /** Its lane: a turn there delays the others in the lane. @default no lane */
  readonly lane?: string
  /** How many turns the lane allows at once. @default 1 */
  readonly size?: number
  /** Its turn blocks this thread. @default false */
  readonly sync?: boolean
  /** Waits above this give a warning. @default the option of the recorder */
  readonly warnMs?: number
}

/** Measures nothing. */
export const noMeter: Meter = Object.freeze({
  kind: () => 0,
  begin: () => 0,
  enter: () => undefined,
  leave: () => undefined,
  turn: () => undefined,
  depth: () => undefined,
})
