import { type Backoff, backoffMs } from './backoff.ts'
import { type Clock, systemClock } from './clock.ts'
import { createEvents, type EventSource, type Events } from './events.ts'
import { createNotifier, type Notifier } from './notifier.ts'
import { whole } from './options.ts'

/**
 * A supervised loop: it calls `step` repeatedly until `stop`. No error of a step ends it.
 *
 *     step ── 'more' ──────────────────────────────▶ step at once
 *      ├──── 'idle' ── sleep idleMs, or a wake-up ────▶ step
 *      ├──── throws ── back off, deaf to wake-ups ────▶ step          failed; then recovered
 *      └──── no progress for watchdogMs ───────────▶ a fresh generation steps; the old step is abandoned
 *
 * A worker that hangs waits for a promise that never settles. So every step has a watchdog: a step without progress is
 * aborted and replaced, and its late result is ignored. `healthy` is false from then on until a step succeeds, and while
 * steps have failed for watchdogMs.
 */
export interface Loop extends AsyncDisposable {
  readonly name: string
  /** What happens to the loop, for logs, metrics and tests. */
  readonly events: EventSource<LoopEvents>
  /** Whether the loop runs, and a step succeeded within watchdogMs. */
  readonly healthy: boolean
  /** When a step last succeeded or reported progress, by the loop's clock; at first, the start of the loop. */
  readonly lastProgressAt: number
  /** How many generations the watchdog has replaced. */
  readonly restarts: number
  /** Aborts the current step, waits up to `graceMs` (default 10,000), and returns whether all steps ended. */
  stop(options?: { readonly graceMs?: number }): Promise<{ readonly ended: boolean }>
}

/** The events of a loop. */
export interface LoopEvents {
  failed: { readonly error: unknown; readonly failureCount: number; readonly retryInMs: number }
  recovered: { readonly failureCount: number }
  stalled: { readonly stalledMs: number; readonly restarts: number }
  /** An abandoned step has ended late; `error` is set when it threw. */
  late: { readonly error?: unknown }
  stopped: { readonly ended: boolean }
}

/** Starts a loop; its first step runs after the caller's turn, so listeners can be added first. */
export function createLoop(options: LoopOptions): Loop {
  const { backoff, ...given } = options
  return new SupervisedLoop({
    ...{
      idleMs: 1_000,
      notifier: createNotifier(),
      watchdogMs: 30_000,
      clock: systemClock,
      random: Math.random,
    },
    ...given,
    backoff: { ...defaultBackoff, ...backoff },
  })
}

const defaultBackoff: Backoff = { baseMs: 100, factor: 2, maxMs: 30_000, jitter: 0.2 }

/** After this many steps, or this long, the event loop gets its turn. */
const stepsPerTurn = 100
const turnMs = 10
/** Ends the waits that lost a race. Created once, because an error with a stack is the dearest part of waking up. */
const awake = new DOMException('The nap is over.', 'AbortError')

class SupervisedLoop implements Loop {
  readonly #options: ResolvedLoopOptions
  readonly #events: Events<LoopEvents> = createEvents<LoopEvents>()
  readonly #stopping = new AbortController()
  readonly #ended = Promise.withResolvers<void>()
  #generation = 0
  /** Runs that have not returned: the current one, and abandoned ones that still hang. */
  #runCount = 0
  #step: AbortController | undefined
  #nap: AbortController | undefined
  #disarm: (() => void) | undefined
  #failureCount = 0
  #failingSince: number | undefined
  #stalled = false
  #lastProgressAt: number

  constructor(options: ResolvedLoopOptions) {
    this.#options = options
    this.#lastProgressAt = options.clock.now()
    queueMicrotask(() => void this.#run(this.#generation))
    this.#runCount = 1
  }

  get name(): string {
    return this.#options.name
  }

  get events(): EventSource<LoopEvents> {
    return this.#events
  }

  get healthy(): boolean {
    if (this.#stalled || this.#stopping.signal.aborted) return false
    const { clock, watchdogMs } = this.#options
    return this.#failingSince === undefined || clock.now() - this.#failingSince < watchdogMs
  }

  get lastProgressAt(): number {
    return this.#lastProgressAt
  }

  get restarts(): number {
    return this.#generation
  }

  async stop({ graceMs = 10_000 }: { readonly graceMs?: number } = {}): Promise<{ readonly ended: boolean }> {
    whole('graceMs', graceMs)
    const { clock, name } = this.#options
    const first = !this.#stopping.signal.aborted
    const reason = new DOMException(`The loop "${name}" was stopped.`, 'AbortError')
    this.#stopping.abort(reason)
    this.#step?.abort(reason)
    this.#nap?.abort(reason)
    // From here on the grace replaces the watchdog, and no timer may outlive the loop.
    this.#disarm?.()
    const ended = await new Promise<boolean>((resolve) => {
      const timer = clock.setTimeout(() => resolve(false), graceMs)
      void this.#ended.promise.then(() => {
        clock.clearTimeout(timer)
        resolve(true)
      })
    })
    if (first) this.#events.emit('stopped', { ended })
    return { ended }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** Never rejects: `#attempt` catches the step, and the waits below end early only by `stop`. */
  async #run(generation: number): Promise<void> {
    const { clock } = this.#options
    const { signal } = this.#stopping
    let stepsInTurn = 0
    let turnBeganAt = clock.now()
    while (generation === this.#generation && !signal.aborted) {
      const pause = await this.#attempt(generation)
      if (generation !== this.#generation || signal.aborted) break
      if (pause !== 'none') await this.#sleep(pause)
      // Also after a sleep: with endless wake-ups it is no sleep at all.
      if (++stepsInTurn < stepsPerTurn && clock.now() - turnBeganAt < turnMs) continue
      await nextTurn()
      stepsInTurn = 0
      turnBeganAt = clock.now()
    }
    if (--this.#runCount === 0) this.#ended.resolve()
  }

  /** One step under its watchdog; returns how to continue. */
  async #attempt(generation: number): Promise<Pause> {
    const controller = new AbortController()
    this.#step = controller
    let progressAt = this.#options.clock.now()
    const isCurrent = () => generation === this.#generation
    const disarm = this.#watch(() => progressAt, controller)
    this.#disarm = disarm
    const progress = () => {
      if (!isCurrent()) return
      progressAt = this.#options.clock.now()
      this.#lastProgressAt = progressAt
    }
    try {
      const outcome = await this.#options.step({ signal: controller.signal, progress })
      if (isCurrent()) return this.#succeeded(outcome)
      this.#events.emit('late', {})
    } catch (error) {
      if (isCurrent()) return this.#failed(error)
      this.#events.emit('late', { error })
    } finally {
      disarm()
    }
    return 'none'
  }

  #succeeded(outcome: StepOutcome): Pause {
    this.#lastProgressAt = this.#options.clock.now()
    this.#stalled = false
    this.#failingSince = undefined
    const failureCount = this.#failureCount
    this.#failureCount = 0
    if (failureCount > 0) this.#events.emit('recovered', { failureCount })
    return outcome === 'more' ? 'none' : 'idle'
  }

  #failed(error: unknown): Exclude<Pause, 'idle'> {
    // A step that throws because of `stop` has not failed.
    if (this.#stopping.signal.aborted) return 'none'
    const { backoff, random, clock } = this.#options
    this.#failingSince ??= clock.now()
    const failureCount = ++this.#failureCount
    const retryInMs = backoffMs(backoff, failureCount, random)
    this.#events.emit('failed', { error, failureCount, retryInMs })
    return { retryInMs }
  }

  /** Sleeps until there may be something to do. A wake-up does not shorten a back-off: endless wake-ups would end it. */
  async #sleep(pause: Exclude<Pause, 'none'>): Promise<void> {
    const { notifier, idleMs, clock } = this.#options
    const nap = new AbortController()
    this.#nap = nap
    const limits = { timeoutMs: pause === 'idle' ? idleMs : pause.retryInMs, signal: nap.signal, clock }
    // This notifier is never woken and keeps the time-out: a backend's notifier may hang or fail, and polling must continue.
    const waits = [createNotifier().wait(limits)]
    // `async` turns an exception of a foreign notifier into a rejection.
    if (pause === 'idle') waits.push((async () => notifier.wait(limits))())
    try {
      await Promise.race(waits)
    } catch (error) {
      if (this.#stopping.signal.aborted) return
      const next = this.#failed(error)
      if (next !== 'none') await this.#sleep(next)
    } finally {
      nap.abort(awake)
    }
  }

  /** Watches one step; returns the function that ends the watch. */
  #watch(progressAt: () => number, controller: AbortController): () => void {
    const { clock, watchdogMs } = this.#options
    let timer: unknown
    let dueAt = 0
    let hadSecondChance = false
    const arm = (ms: number) => {
      dueAt = clock.now() + ms
      timer = clock.setTimeout(check, ms)
    }
    const check = () => {
      const now = clock.now()
      const leftMs = progressAt() + watchdogMs - now
      if (leftMs > 0) return arm(leftMs)
      // A late timer means that the process was blocked or stopped. The step could not run either, and its answer may
      // wait in the socket: it gets one more period.
      if (!hadSecondChance && now - dueAt > watchdogMs / 10) {
        hadSecondChance = true
        return arm(watchdogMs)
      }
      this.#replace(now - progressAt(), controller)
    }
    arm(watchdogMs)
    return () => clock.clearTimeout(timer)
  }

  #replace(stalledMs: number, controller: AbortController): void {
    this.#stalled = true
    this.#generation++
    this.#runCount++
    const message = `A step of the loop "${this.#options.name}" made no progress for ${Math.round(stalledMs)} ms.`
    controller.abort(new DOMException(message, 'TimeoutError'))
    this.#events.emit('stalled', { stalledMs, restarts: this.#generation })
    void this.#run(this.#generation)
  }
}

type Pause = 'none' | 'idle' | { readonly retryInMs: number }

/** Lets timers and I/O run. Not a wait for time, so not by the Clock. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (typeof setImmediate === 'function') setImmediate(resolve)
    else setTimeout(resolve, 0)
  })
}

/** The answer of a step: `more` work waits, or it is `idle` (the same as undefined). */
export type StepOutcome = 'more' | 'idle' | void

/** The arguments of a step. */
export interface StepContext {
  /** Aborts when the loop stops or the watchdog has given the step up. */
  readonly signal: AbortSignal
  /** Tells the watchdog that a long step makes progress. */
  readonly progress: () => void
}

/** The options of a loop. */
export interface LoopOptions {
  /** The loop's name in messages, logs and metrics. */
  readonly name: string
  /** One round of work. It may throw, and it should obey its signal. */
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

type ResolvedLoopOptions = Required<Omit<LoopOptions, 'backoff'>> & { readonly backoff: Backoff }
