import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Duration } from '../core/duration.ts'
import { invalidArgument, SignalboxError } from '../core/errors.ts'
import { createFakeClock, type FakeClock } from '../core/fake-clock.ts'
import { duration, instant, oneOf, onlyKeys } from '../core/options.ts'
import { type Box, open } from '../index.ts'
import { createDrivenJobs } from '../jobs/index.ts'
import { createLocksForJobs } from '../locks/index.ts'
import { type Drained, type DrainOptions, drain, runInline } from './drain.ts'

/** The options of a test box. */
export interface TestBoxOptions {
  /** `manual`: jobs run when `drain` is called. `inline`: a job runs at once when it is added. @default 'manual' */
  readonly mode?: 'inline' | 'manual' | undefined
  /** The first time of the clock: epoch milliseconds, or a Date. @default the present time */
  readonly at?: number | Date | undefined
  /**
   * The store of the jobs: `sqlite:FILE` for your own file, which is not removed, or `memory:`, which opens faster and
   * has no tables and no transactions. @default a new SQLite file, which is removed when the box is closed
   */
  readonly url?: 'memory:' | `sqlite:${string}` | undefined
}

/**
 * A box for tests: it has its own SQLite database, a clock that does not move by itself, and workers that run no jobs
 * by themselves. The handlers of a worker are used from its creation until it is stopped, even if it is not started.
 */
export interface TestBox extends Box {
  /**
   * Your connection to the box's database: for your own tables, and to read what handlers wrote. After `BEGIN
   * IMMEDIATE` you can pass it as `tx`. Throws `transaction_unsupported` on `memory:`.
   */
  readonly database: DatabaseSync
  /** The clock of the store, and of handlers' time-outs. */
  readonly clock: TestClock
  readonly mode: 'inline' | 'manual'
  /**
   * Runs due jobs, one after the other, including jobs that are added meanwhile. Answers how many runs ended in which
   * way, and the errors of failed runs. Retries run when the clock was moved to their time. Throws `too_many` if it
   * does not end.
   */
  drain(options?: DrainOptions): Promise<Drained>
}

/** Opens a box for tests. */
export async function openTestBox(options: TestBoxOptions = {}): Promise<TestBox> {
  onlyKeys('openTestBox', options, ['mode', 'at', 'url'])
  const mode = oneOf('openTestBox.mode', options.mode ?? 'manual', ['inline', 'manual'])
  const clock = createTestClock(instant('openTestBox.at', options.at ?? Date.now()))
  const database = createTestDatabase(options.url === undefined ? undefined : testUrl(options.url))
  const box = await openOn(database, clock)
  const { jobs: store, logs, attempts, schedules, notifier } = box.backend
  const dependencies = {
    store: box.backend.dependencies,
    locks: createLocksForJobs(() => box.locks, notifier),
  }
  const driven = createDrivenJobs({ store, logs, attempts, schedules, dependencies, notifier, clock })
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
  throw invalidArgument(
    'openTestBox.url must be memory: or sqlite:FILE. Tests cannot move the clock of other stores.',
    'openTestBox.url',
  )
}

function boxClosed(): SignalboxError {
  return new SignalboxError('closed', 'This box is closed. Open another one.')
}

/** The clock of a test box. It moves only when the test moves it, and accepts durations like all of Signalbox. */
export interface TestClock extends Omit<FakeClock, 'advance'> {
  /**
   * Moves the time forward: milliseconds, or text like '30s', '5m', '24h'. Time-outs in between fire at their times.
   */
  advance(span: Duration): void
}

/** Creates a clock that starts at `at`, in epoch milliseconds. */
export function createTestClock(at: number): TestClock {
  const fake = createFakeClock(at)
  return Object.create(fake, {
    advance: { value: (span: Duration) => fake.advance(duration('advance', span)) },
  }) as TestClock
}

/**
 * The database of a test box: by default its own SQLite file. It is a file, not `:memory:`, because the box and the
 * test need separate connections to the same database, and one must read while the other writes. If a box is not
 * closed, its file stays until the process ends.
 */
export interface TestDatabase {
  /** For `open`. */
  readonly url: string
  /** The connection of the test, opened by the first call. Throws on a store without tables. */
  connect(): DatabaseSync
  /** Closes that connection, and removes the box's own file. */
  remove(): void
}

/** Without `url`, a SQLite file in a new folder. */
export function createTestDatabase(url: string | undefined): TestDatabase {
  const folder = url === undefined ? makeFolder() : undefined
  // A test's data need not survive a power cut, so no commit waits for the disk.
  const address = url ?? `sqlite:${join(folder!, 'test.db')}?synchronous=normal`
  let connection: DatabaseSync | undefined
  return {
    url: address,
    connect() {
      connection ??= new DatabaseSync(fileOf(address))
      return connection
    },
    remove() {
      if (connection?.isOpen) connection.close()
      if (folder !== undefined) removeFolder(folder)
    },
  }
}

function fileOf(url: string): string {
  if (url.startsWith('sqlite:')) return url.slice('sqlite:'.length).replace(/\?.*$/s, '')
  throw new SignalboxError(
    'transaction_unsupported',
    'This test box is on memory:, which has no tables. Open it without `url` to get a SQLite database.',
  )
}

const folders = new Set<string>()

function makeFolder(): string {
  if (folders.size === 0) process.once('exit', removeAll)
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-test-'))
  folders.add(folder)
  return folder
}

function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
  folders.delete(folder)
  if (folders.size === 0) process.off('exit', removeAll)
}

function removeAll(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
}
