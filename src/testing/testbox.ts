import { SignalboxError } from '../core/errors.ts'
import { oneOf, onlyKeys, whole } from '../core/options.ts'
import { type Box, open } from '../index.ts'
import { createDrivenJobs } from '../jobs/index.ts'
import { createLocksForJobs } from '../locks/index.ts'
import { createTestClock, type TestClock } from './clock.ts'
import { type Drained, type DrainOptions, drain } from './drain.ts'
import { runInline } from './inline.ts'

/** What a test box can be told. */
export interface TestBoxOptions {
  /** `manual`: jobs run when `drain` is called. `inline`: a job runs at once when it is added. @default 'manual' */
  readonly mode?: 'inline' | 'manual' | undefined
  /** What the clock reads at first: epoch milliseconds, or a Date. @default the present moment */
  readonly at?: number | Date | undefined
}

/**
 * A box for tests: on `memory:`, with a clock that stands still, and with workers that run nothing by themselves. A
 * worker's handlers count from the moment it is made until it is stopped, started or not.
 */
export interface TestBox extends Box {
  /** The time of the store, and of handlers' time-outs. */
  readonly clock: TestClock
  readonly mode: 'inline' | 'manual'
  /**
   * Runs everything that is due to its end, one after the other, also what is added meanwhile; answers how many runs
   * ended how. Retries come when the clock has been moved so far. Throws `too_many` when there is no end to it.
   */
  drain(options?: DrainOptions): Promise<Drained>
}

/** Opens a box for tests. */
export async function openTestBox(options: TestBoxOptions = {}): Promise<TestBox> {
  onlyKeys('openTestBox', options, ['mode', 'at'])
  const mode = oneOf('openTestBox.mode', options.mode ?? 'manual', ['inline', 'manual'])
  const clock = createTestClock(instant(options.at))
  const box = await open('memory:', { clock, contention: false })
  const { jobs: store, notes, schedules, bell } = box.backend
  const gates = { store: box.backend.gates, locks: createLocksForJobs(() => box.locks, bell) }
  const driven = createDrivenJobs({ store, notes, schedules, gates, bell, clock })
  let closed: Promise<void> | undefined

  async function close(): Promise<void> {
    await driven.jobs[Symbol.asyncDispose]()
    await box.close()
  }

  return {
    ...box,
    jobs: mode === 'inline' ? runInline(driven) : driven.jobs,
    clock,
    mode,
    async drain(drainOptions) {
      if (closed !== undefined) throw new SignalboxError('closed', 'This box was closed; open another.')
      return drain({ driven, clock }, drainOptions)
    },
    close: () => {
      closed ??= close()
      return closed
    },
  }
}

function instant(at: number | Date | undefined): number {
  const given = at instanceof Date ? at.getTime() : at
  return whole('openTestBox.at', given ?? Date.now(), { max: 8_640_000_000_000_000 })
}
