/**
 * What modules and stores tell of their waits and holds, for whoever measures (src/contention). All of it is cheap, none of
 * it throws, and without anybody who measures it is `noMeter`. Instants are those of `performance.now()`.
 *
 *     begin ──▶ waits in its lane ──▶ enter ──▶ has its turn ──▶ leave
 */
export interface Meter {
  /** The number of a kind of command; the same name gives the same number. Names are ours, never a user's data. */
  kind(name: string, traits?: KindTraits): number
  /** Somebody stands in line from now on. `what` is shown to operators with the slowest turns. */
  begin(kind: number, what?: string): Ticket
  /** Its turn begins. */
  enter(ticket: Ticket): void
  /** Its turn is over; or, when it had none, it left the line. */
  leave(ticket: Ticket): void
  /** The same after the fact, for whoever keeps the instants anyway. */
  turn(kind: number, begunAt: number, enteredAt: number, leftAt: number, what?: string): void
  /** How many stand in a lane whose turns are told after the fact. */
  depth(lane: string, waiting: number): void
}

/** Somebody on its way through a lane. */
export type Ticket = number

export interface KindTraits {
  /** Where it stands in line; whoever has a turn there holds up the others there. @default it holds up nobody */
  readonly lane?: string
  /** How many may have a turn in that lane at once. @default 1 */
  readonly size?: number
  /** Its turn stops this thread, and so everybody. @default false */
  readonly sync?: boolean
  /** Above how long a wait a warning is given. @default what the recorder was told */
  readonly warnMs?: number
}

/** For those who do not measure. */
export const noMeter: Meter = Object.freeze({
  kind: () => 0,
  begin: () => 0,
  enter: () => undefined,
  leave: () => undefined,
  turn: () => undefined,
  depth: () => undefined,
})
