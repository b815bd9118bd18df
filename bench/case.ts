/**
 * What a module registers. A module has trials; a trial is a set of contestants that do the same work, measured in
 * turns under the same process settings; a case is one figure of a trial, held against its goal.
 *
 *   module ── trial ──┬─ contestants: signalbox, peers, limit   (each measurement in a separate process)
 *                   └─ cases: name, unit, which figure, goal
 *
 * Figures and cases are apart because one measurement often answers several questions: a drain gives a rate and
 * bytes, a latency run gives p50 and p99.
 */
import type { Goal } from './goal.ts'

/** What one measurement found, by figure name: `{ rate: 3.2, bytes: 98 }`. */
export type Figures = Readonly<Record<string, number>>

/** What a contestant is told about the run it is in. */
export interface Conditions {
  /** Shorter rounds were asked for: do fewer operations of the same kind. */
  readonly quick: boolean
  /** The longest form was asked for: an hour where a minute is usual. @default false */
  readonly full?: boolean
  /** What the trial's ground hands to every contestant alike, such as a database's URL. */
  readonly settings: Readonly<Record<string, string>>
}

/** Warms up, measures once, and answers the figures. Throws when it cannot run; the message becomes the reason. */
export type Contestant = (conditions: Conditions) => Figures | Promise<Figures>

/** What a trial stands on, brought up once and shared by every contestant of it. */
export interface Ground extends AsyncDisposable {
  readonly settings: Readonly<Record<string, string>>
}

export interface Case {
  /** Stable: it is how a figure is found again. */
  readonly name: string
  readonly unit: string
  readonly better: 'higher' | 'lower'
  /** Which of the trial's figures this case is about. */
  readonly figure: string
  readonly goal: Goal
  /** The trial's contestants that count as peers here. The contestant `limit` is the limit where there is one. */
  readonly peers: readonly string[]
  /** Figures taken elsewhere, printed with a star and never used in a ratio. */
  readonly constants?: Readonly<Record<string, string>>
}

export interface Trial {
  readonly name: string
  /** `signalbox` and its rivals by name; `limit` is the plainest code that does the same work. */
  readonly contestants: Readonly<Record<string, Contestant>>
  readonly cases: readonly Case[]
  /** Brings up what the contestants need. When it throws, every case of the trial is unmet with its message. */
  readonly open?: () => Promise<Ground>
  /** For trials that are too slow to repeat. @default the rounds of the run */
  readonly rounds?: number
  /** How long one measurement may take. @default 180_000 */
  readonly deadlineMs?: number
}

export interface BenchModule {
  readonly name: string
  readonly trials: readonly Trial[]
  /** Makes what all of its trials need; told how to say what it is at. */
  readonly prepare?: (say: (line: string) => void) => Promise<void>
}
