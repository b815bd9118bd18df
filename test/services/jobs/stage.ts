/**
 * Where the stories of jobs are told: `open(url)` on each engine, in a namespace of its own, with a second box on the
 * same store and a user's own connection beside it. Only the public surface is used.
 *
 *   BACKENDS=sqlite npx vitest run test/services/jobs      only that one
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type Box, type OpenOptions, open } from 'signalbox'
import type { Job, JobState, Worker, WorkerOptions } from 'signalbox/jobs'
import { afterAll, test } from 'vitest'
import { type Caller, mariadbCaller, postgresCaller, sqliteCaller } from '../../conformance/callers.ts'
import { type EngineName, engineNames, ownSqlite } from '../../conformance/candidates.ts'
import { within } from '../../support/deadline.ts'
import { hasService, type OwnDatabase, ownMariadb, ownPostgres } from '../../support/services/own.ts'

const connects: Readonly<Record<Exclude<EngineName, 'memory'>, (url: string) => Promise<Caller>>> = {
  sqlite: sqliteCaller,
  postgres: postgresCaller,
  mariadb: mariadbCaller,
}

const databases: Readonly<Record<Exclude<EngineName, 'memory'>, () => Promise<OwnDatabase>>> = {
  sqlite: ownSqlite,
  postgres: ownPostgres,
  mariadb: ownMariadb,
}

/** The engines of this run. */
export function stages(): readonly Stage[] {
  const named = process.env.BACKENDS?.split(',').map((text) => text.trim())
  return engineNames
    .filter((name) => named === undefined || named.includes(name))
    .filter((name) => name === 'memory' || name === 'sqlite' || hasService(name))
    .map((name) => new Stage(name))
}

/** One engine: its database is made when first needed and removed after the file's last test. */
export class Stage {
  readonly name: EngineName
  /** Whether users have tables there, and transactions of their own. */
  readonly hasTables: boolean
  #own: Promise<OwnDatabase> | undefined

  constructor(name: EngineName) {
    this.name = name
    this.hasTables = name !== 'memory'
    afterAll(async () => (await this.#own)?.[Symbol.asyncDispose]())
  }

  async url(): Promise<string> {
    if (this.name === 'memory') return 'memory:'
    this.#own ??= databases[this.name]()
    return (await this.#own).url
  }

  /** A test on this engine; the story is over after `limitMs`, whatever hangs. */
  story(name: string, tell: (scene: Scene) => Promise<void>, limitMs = 15_000): void {
    test(
      name,
      async () => {
        await using scene = new Scene(this)
        await within(limitMs, `"${name}" on ${this.name}`, tell(scene))
      },
      limitMs + 10_000,
    )
  }

  /** The same, where users have tables. */
  tableStory(name: string, tell: (scene: Scene) => Promise<void>, limitMs?: number): void {
    if (this.hasTables) this.story(name, tell, limitMs)
    else test.skip(`${name} (this engine has no tables of the user's)`, () => undefined)
  }

  /** The same, where a user's open transaction leaves other writers alone. */
  rowLockStory(name: string, tell: (scene: Scene) => Promise<void>, limitMs?: number): void {
    if (this.name !== 'sqlite') this.tableStory(name, tell, limitMs)
    else test.skip(`${name} (this engine has one writer)`, () => undefined)
  }

  async connect(): Promise<Caller> {
    assert.ok(this.name !== 'memory')
    return connects[this.name](await this.url())
  }
}

/** What one story uses; all of it is closed when the story ends, workers first. */
export class Scene implements AsyncDisposable {
  readonly stage: Stage
  readonly namespace: string = `story-${randomBytes(6).toString('hex')}`
  readonly #boxes: Box[] = []
  readonly #callers: Caller[] = []
  readonly #workers: Worker[] = []

  constructor(stage: Stage) {
    this.stage = stage
  }

  async open(options: OpenOptions = {}): Promise<Box> {
    const box = await open(await this.stage.url(), { namespace: this.namespace, migrate: true, ...options })
    this.#boxes.push(box)
    return box
  }

  /** Another box on the same store, as another process has; memory has only the one. */
  async openAnother(first: Box): Promise<Box> {
    return this.stage.name === 'memory' ? first : this.open()
  }

  /** A user's own connection, and a table of theirs for what jobs do: `paid (scene, job, note)`. */
  async connect(): Promise<Caller> {
    const caller = await this.stage.connect()
    this.#callers.push(caller)
    await caller.exec(
      'CREATE TABLE IF NOT EXISTS paid (scene varchar(40), job varchar(40), note varchar(40))',
    )
    return caller
  }

  /** The notes in the user's table, seen from outside. */
  async paid(): Promise<readonly string[]> {
    await using caller = await this.stage.connect()
    const rows = await caller.exec('SELECT note FROM paid WHERE scene = ? ORDER BY note', this.namespace)
    return rows.map(({ note }) => String(note))
  }

  /** A worker that runs already; stories poll often, so that none waits for its second. */
  async work(box: Box, options: WorkerOptions): Promise<Worker> {
    const worker = box.jobs.worker({ pollMs: 50, ...options })
    this.#workers.push(worker)
    await worker.start()
    return worker
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.stop({ graceMs: 100 })))
    for (const caller of this.#callers) await caller[Symbol.asyncDispose]()
    for (const box of this.#boxes) await box.close()
  }
}

/** The job, once it is as it should be; fails with what it was when that takes too long. */
export async function jobWhen(
  box: Box,
  id: string,
  isSo: (job: Job) => boolean,
  limitMs = 8_000,
): Promise<Job> {
  const deadline = performance.now() + limitMs
  for (;;) {
    const job = await box.jobs.find(id)
    if (job && isSo(job)) return job
    if (performance.now() > deadline) assert.fail(`after ${limitMs} ms the job was ${JSON.stringify(job)}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

export function jobIn(box: Box, id: string, state: JobState, limitMs?: number): Promise<Job> {
  return jobWhen(box, id, (job) => job.state === state, limitMs)
}

/** Waits until something is so, without saying how long that may take beyond a limit. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  limitMs = 10_000,
): Promise<void> {
  const deadline = performance.now() + limitMs
  while (!(await isSo())) {
    if (performance.now() > deadline) assert.fail(`after ${limitMs} ms it was still not so: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** When a signal aborts, with its reason. */
export function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(signal.reason)
    signal.addEventListener('abort', () => resolve(signal.reason))
  })
}

/** A promise that somebody else settles, for handlers that must not end by themselves. */
export function gate(): PromiseWithResolvers<void> {
  return Promise.withResolvers<void>()
}
