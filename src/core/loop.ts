import { backoffMs } from './backoff.ts'
import { createEvents, type EventSource, type Events } from './events.ts'
import {
  type LoopOptions,
  type ResolvedLoopOptions,
  resolveLoopOptions,
  type StepOutcome,
} from './loop-options.ts'
import { createNotifier } from './notifier.ts'
import { whole } from './options.ts'

/**
 * A supervised loop: it calls `step` again and again, and nothing a step does can end it but `stop`.
 *
 *     step ── 'more' ──────────────────────────────▶ step at once
 *      ├──── 'idle' ── sleep idleMs, or a wake-up ────▶ step
 *      ├──── throws ── back off, deaf to wake-ups ────▶ step          failed; then recovered
 *      └──── no progress for watchdogMs ───────────▶ a fresh generation steps; the old step is abandoned
 *
 * Workers that live but no longer work hang in an await that never settles. So every step has a
 * watchdog. A step without progress is aborted and replaced; what it returns later is ignored, for its place has
 * been taken. `healthy` is false from then on until a step ends well, and while steps have failed for watchdogMs.
 */
export interface Loop extends AsyncDisposable {
  readonly name: string
  /** What happens to the loop, for logs, metrics and tests. */
  readonly events: EventSource<LoopEvents>
  /** Whether the loop runs and its steps end well, or did so within watchdogMs. */
  readonly healthy: boolean
  /** When a step last ended well or told of progress, by the loop's clock; at first, when the loop began. */
  readonly lastProgressAt: number
  /** How many generations the watchdog has replaced. */
  readonly restarts: number
  /** Aborts the step in hand, waits for it up to `graceMs` (10,000 unless told), and says whether all steps ended. */
  stop(options?: { readonly graceMs?: number }): Promise<{ readonly ended: boolean }>
}

/** The events of a loop. */
export interface LoopEvents {
  failed: { readonly error: unknown; readonly failureCount: number; readonly retryInMs: number }
  recovered: { readonly failureCount: number }
  stalled: { readonly stalledMs: number; readonly restarts: number }
  /** A step that had been abandoned settled after all; `error` is there when it threw. */
  late: { readonly error?: unknown }
  stopped: { readonly ended: boolean }
}

/** Starts a loop; its first step runs after the caller's turn, so listeners can be added first. */
export function createLoop(options: LoopOptions): Loop {
  return new SupervisedLoop(resolveLoopOptions(options))
}

/** So many steps, or so long, may follow each other before the event loop gets its turn. */
const stepsPerTurn = 100
const turnMs = 10
/** What ends the waits that did not end a nap. Made once: one made for each, with its stack, would be the dearest part of waking up. */
const awake = new DOMException('The nap is over.', 'AbortError')

class SupervisedLoop implements Loop {
  readonly #options: ResolvedLoopOptions
  readonly #events: Events<LoopEvents> = createEvents<LoopEvents>()
  readonly #stopping = new AbortController()
  readonly #ended = Promise.withResolvers<void>()
  #generation = 0
  /** Runs that have not returned: the present one, and abandoned ones whose step still hangs. */
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
    // From here on the grace is the watchdog: nothing is started any more, and no timer may outlive the loop.
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

  /** One step under its watchdog; replies with how to go on. */
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
    // A step that throws because it was told to stop has not failed.
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
    // The time-out is kept here as well, by a notifier that is never woken: a backend's notifier may hang or fail, and polling
    // must go on without it.
    const waits = [createNotifier().wait(limits)]
    // `async` turns what a foreign notifier throws into a rejection, like all the rest of its trouble.
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

  /** Watches one step; replies with the function that ends the watch. */
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
      // A timer that is itself late means that the process stood still (blocked, SIGSTOP). The step had no chance
      // either, and its answer may be waiting in the socket: it gets one more period.
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
