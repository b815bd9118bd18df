import { type Backoff, resolveBackoff } from './backoff.ts'
import { type Clock, systemClock } from './clock.ts'
import { createNotifier, type Notifier } from './notifier.ts'
import { callable, duration, onlyKeys, text, withDefaults } from './options.ts'

/** What a step says of the work: `more` is waiting, or it is `idle` for now (as is a step that says nothing). */
export type StepOutcome = 'more' | 'idle' | void

/** What a step is given. */
export interface StepContext {
  /** Aborts when the loop stops or the watchdog has given the step up. */
  readonly signal: AbortSignal
  /** Tells the watchdog that a long step is getting on. */
  readonly progress: () => void
}

/** What a loop is made of. */
export interface LoopOptions {
  /** The loop's name in messages, logs and metrics. */
  readonly name: string
  /** One round of work. It may throw, and it should heed its signal. */
  readonly step: (context: StepContext) => Promise<StepOutcome> | StepOutcome
  /** How long to sleep after a step without more to do. @default 1_000 */
  readonly idleMs?: number
  /** Ends that sleep early. @default a notifier that never wakes */
  readonly notifier?: Pick<Notifier, 'wait'>
  /** How long to wait after failures. @default { baseMs: 100, factor: 2, maxMs: 30_000, jitter: 0.2 } */
  readonly backoff?: Partial<Backoff>
  /** How long a step may go without progress before it is replaced. @default 30_000 */
  readonly watchdogMs?: number
  /** The time of all the above. @default systemClock */
  readonly clock?: Clock
  /** Numbers in [0, 1) for the jitter. @default Math.random */
  readonly random?: () => number
}

/** Options that are whole and checked. */
export type ResolvedLoopOptions = Required<Omit<LoopOptions, 'backoff'>> & { readonly backoff: Backoff }

type LoopSettings = Required<Omit<LoopOptions, 'name' | 'step' | 'notifier'>>

/** What a loop does unless told otherwise. */
export const loopDefaults: LoopSettings & { readonly backoff: Backoff } = {
  idleMs: 1_000,
  backoff: { baseMs: 100, factor: 2, maxMs: 30_000, jitter: 0.2 },
  watchdogMs: 30_000,
  clock: systemClock,
  random: Math.random,
}

/** The longest delay a timer takes. */
const maxTimerMs = 2 ** 31 - 1

/** Checks a loop's options and makes them whole. */
export function resolveLoopOptions(options: LoopOptions): ResolvedLoopOptions {
  onlyKeys('createLoop', options, ['name', 'step', 'notifier', ...Object.keys(loopDefaults)])
  const { name, step, notifier = createNotifier(), ...rest } = options
  const given = withDefaults<LoopSettings>('createLoop', rest, loopDefaults)
  return Object.freeze({
    name: text('createLoop.name', name),
    step: callable('createLoop.step', step),
    notifier,
    idleMs: duration('createLoop.idleMs', given.idleMs, { max: maxTimerMs }),
    backoff: resolveBackoff('createLoop.backoff', given.backoff, loopDefaults.backoff),
    watchdogMs: duration('createLoop.watchdogMs', given.watchdogMs, { min: 1, max: maxTimerMs }),
    clock: given.clock,
    random: callable('createLoop.random', given.random),
  })
}
