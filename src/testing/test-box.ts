import type { DatabaseSync } from 'node:sqlite'
import { SignalboxError } from '../core/errors.ts'
import { oneOf, onlyKeys, whole } from '../core/options.ts'
import { type Box, open } from '../index.ts'
import { createDrivenJobs } from '../jobs/index.ts'
import { createLocksForJobs } from '../locks/index.ts'
import { type Drained, type DrainOptions, drain } from './drain.ts'
import { runInline } from './run-inline.ts'
import { createTestClock, type TestClock } from './test-clock.ts'
import { createTestDatabase, type TestDatabase } from './test-database.ts'

/** The options of a test box. */
export interface TestBoxOptions {
  /** `manual`: jobs run when `drain` is called. `inline`: a job runs at once when it is added. @default 'manual' */
  readonly mode?: 'inline' | 'manual' | undefined
  /** What the clock reads at first: epoch milliseconds, or a Date. @default the present moment */
  readonly at?: number | Date | undefined
  /**
   * Where jobs are kept: `sqlite:FILE`, a file of yours that stays, or `memory:`, which opens faster and has no tables and
   * no transactions. @default a SQLite file of the box's own, removed when the box is closed
   */
  readonly url?: 'memory:' | `sqlite:${string}` | undefined
}

/**
 * A box for tests: on its own SQLite database, with a clock that stands still, and with workers that run nothing by
 * themselves. A worker's handlers count from the moment it is made until it is stopped, started or not.
 */
export interface TestBox extends Box {
  /**
   * Your connection to the box's database: for tables of yours, and to look at what handlers wrote. After `BEGIN IMMEDIATE`
   * it can be handed in as `tx`. Throws `transaction_unsupported` on `memory:`.
   */
  readonly database: DatabaseSync
  /** The time of the store, and of handlers' time-outs. */
  readonly clock: TestClock
  readonly mode: 'inline' | 'manual'
  /**
   * Runs everything that is due to its end, one after the other, also what is added meanwhile; answers how many runs
   * ended how, and the errors of those that failed. Retries come when the clock has been moved so far. Throws `too_many` when there is no end to it.
   */
  drain(options?: DrainOptions): Promise<Drained>
}

/** Opens a box for tests. */
export async function openTestBox(options: TestBoxOptions = {}): Promise<TestBox> {
  onlyKeys('openTestBox', options, ['mode', 'at', 'url'])
  const mode = oneOf('openTestBox.mode', options.mode ?? 'manual', ['inline', 'manual'])
  const clock = createTestClock(instant(options.at))
  const database = createTestDatabase(options.url === undefined ? undefined : testUrl(options.url))
  const box = await openOn(database, clock)
  const { jobs: store, logs, schedules, notifier } = box.backend
  const dependencies = {
    store: box.backend.dependencies,
    locks: createLocksForJobs(() => box.locks, notifier),
  }
  const driven = createDrivenJobs({ store, logs, schedules, dependencies, notifier, clock })
  let closed: Promise<void> | undefined

  async function close(): Promise<void> {
    try {
      await driven.jobs[Symbol.asyncDispose]()
      await box.close()
    } finally {
      database.remove()
    }
  }

  return {
    ...box,
    jobs: mode === 'inline' ? runInline(driven) : driven.jobs,
    // Warnings about weak settings do not matter for a database that lives for one test.
    warnings: [],
    clock,
    mode,
    get database() {
      if (closed !== undefined) throw boxClosed()
      return database.connect()
    },
    async drain(drainOptions) {
      if (closed !== undefined) throw boxClosed()
      return drain({ driven, clock }, drainOptions)
    },
    close: () => {
      closed ??= close()
      return closed
    },
  }
}

async function openOn(database: TestDatabase, clock: TestClock): Promise<Box> {
  try {
    return await open(database.url, { clock, contention: false })
  } catch (error) {
    database.remove()
    throw error
  }
}

function testUrl(url: string): string {
  if (url === 'memory:' || (typeof url === 'string' && url.startsWith('sqlite:'))) return url
  throw new SignalboxError(
    'invalid_argument',
    'openTestBox.url must be memory: or sqlite:FILE; no other store has a clock that a test can move.',
    { details: { option: 'openTestBox.url' } },
  )
}

function boxClosed(): SignalboxError {
  return new SignalboxError('closed', 'This box was closed; open another.')
}

function instant(at: number | Date | undefined): number {
  const given = at instanceof Date ? at.getTime() : at
  return whole('openTestBox.at', given ?? Date.now(), { max: 8_640_000_000_000_000 })
}
