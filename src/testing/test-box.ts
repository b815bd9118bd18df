import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Duration } from '../core/duration.ts'
import { invalidArgument, SignalboxError } from '../core/errors.ts'
import { createFakeClock, type FakeClock } from '../core/fake-clock.ts'
import { duration, oneOf, onlyKeys, whole } from '../core/options.ts'
import { type Box, open } from '../index.ts'
import { createDrivenJobs } from '../jobs/index.ts'
import { createLocksForJobs } from '../locks/index.ts'
import { type Drained, type DrainOptions, drain, runInline } from './drain.ts'

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

function instant(at: number | Date | undefined): number {
  const given = at instanceof Date ? at.getTime() : at
  return whole('openTestBox.at', given ?? Date.now(), { max: 8_640_000_000_000_000 })
}

/** The clock of a test box: it stands still until it is moved, and takes spans as all of Signalbox does. */
export interface TestClock extends Omit<FakeClock, 'advance'> {
  /** Moves the time on: milliseconds, or text like '30s', '5m', '24h'. Time-outs on the way fire, each at its moment. */
  advance(span: Duration): void
}

/** Makes a clock that reads `at`, in epoch milliseconds. */
export function createTestClock(at: number): TestClock {
  const fake = createFakeClock(at)
  return Object.create(fake, {
    advance: { value: (span: Duration) => fake.advance(duration('advance', span)) },
  }) as TestClock
}

/**
 * Where a test box keeps its jobs: by default its own SQLite file. It is a file, and not `:memory:`, because the box
 * and the test need connections of their own to the same database, and one must be able to read while the other writes.
 * A box that was not closed leaves its file until the process ends.
 */
export interface TestDatabase {
  /** For `open`. */
  readonly url: string
  /** The test's own connection, opened when it is first asked for. Throws where there are no tables. */
  connect(): DatabaseSync
  /** Closes that connection, and removes a file of the box's own. */
  remove(): void
}

/** Without `url`, a SQLite file in a new folder. */
export function createTestDatabase(url: string | undefined): TestDatabase {
  const folder = url === undefined ? makeFolder() : undefined
  // Nothing is left to lose after a power cut, so no commit waits for the disk.
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
