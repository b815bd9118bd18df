/**
 * The stage for stories of jobs: `open(url)` on each engine, in a new namespace, with a second box on the same store
 * and a user's separate connection. It uses only the public surface. Each story runs twice: in process, and over the
 * wire, where a server has the engine and the boxes are remote.
 *
 *   BACKENDS=sqlite npx vitest run test/services/jobs                       only that one
 *   npx vitest run test/services/jobs -t 'over the wire'                    only that way
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type Box, type OpenOptions, open } from 'signalbox'
import type { Job, JobState, Worker, WorkerOptions } from 'signalbox/jobs'
import { createServer } from 'signalbox/server'
import { afterAll, test } from 'vitest'
import { type Caller, mariadbCaller, postgresCaller, sqliteCaller } from '../../conformance/callers.ts'
import { type EngineName, engineNames, ownSqlite } from '../../conformance/candidates.ts'
import { within } from '../../support/deadline.ts'
import { createPause } from '../../support/pause.ts'
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

/** The engines of this run, each in process and over the wire. */
export function stages(): readonly Stage[] {
  const named = process.env.BACKENDS?.split(',').map((text) => text.trim())
  return engineNames
    .filter((name) => named === undefined || named.includes(name))
    .filter((name) => name === 'memory' || name === 'sqlite' || hasService(name))
    .flatMap((name) => [new Stage(name, false), new Stage(name, true)])
}

type Story = (scene: Scene) => Promise<void>

/**
 * One engine, reached in one way. It creates its databases when first needed and removes them after the file's last
 * test.
 */
export class Stage {
  readonly name: EngineName
  /** The boxes are a server's: no transactions, and no settings of the store. */
  readonly isRemote: boolean
  /** For `describe`. */
  readonly title: string
  /** Whether users have tables there. */
  readonly hasTables: boolean
  #own: Promise<OwnDatabase> | undefined
  #served: Promise<Served> | undefined
  #prepared: Promise<void> | undefined

  constructor(name: EngineName, isRemote: boolean) {
    this.name = name
    this.isRemote = isRemote
    this.title = isRemote ? `${name} over the wire` : name
    this.hasTables = name !== 'memory'
    afterAll(async () => {
      await (await this.#served)?.[Symbol.asyncDispose]()
      await (await this.#own)?.[Symbol.asyncDispose]()
    })
  }

  /** The address for boxes: the store's or the server's. */
  async url(): Promise<string> {
    if (!this.isRemote) return this.storeUrl()
    this.#served ??= this.storeUrl().then(serve)
    return (await this.#served).url
  }

  /**
   * A test on this engine; the story fails after `limitMs`, whatever hangs. Engines run side by side (`describe` with
   * `concurrent`) where stories mostly wait and none watches a lease or a clock closely. The stories of one engine
   * always run in order, because an open transaction may block all of its writers.
   */
  story(name: string, story: Story, limitMs = 15_000): void {
    test(name, { timeout: limitMs + 30_000, concurrent: false }, async () => {
      await this.#prepare()
      await using scene = new Scene(this)
      await within(limitMs, `"${name}" on ${this.title}`, story(scene))
    })
  }

  /** The same, where users have tables. */
  tableStory(name: string, story: Story, limitMs?: number): void {
    if (this.hasTables) this.story(name, story, limitMs)
    else this.#skip(name, 'this engine has no tables of the user’s')
  }

  /** The same, for features that need a local store: transactions, above all. */
  localStory(name: string, story: Story, limitMs?: number): void {
    if (this.isRemote) this.#skip(name, 'a remote box refuses it, as other stories show')
    else this.story(name, story, limitMs)
  }

  /** The same, where users have tables and their own transactions. */
  callerStory(name: string, story: Story, limitMs?: number): void {
    if (this.isRemote) this.localStory(name, story, limitMs)
    else this.tableStory(name, story, limitMs)
  }

  /** The same, where a user's open transaction leaves other writers alone. */
  rowLockStory(name: string, story: Story, limitMs?: number): void {
    if (this.name !== 'sqlite') this.callerStory(name, story, limitMs)
    else this.#skip(name, 'this engine has one writer')
  }

  /** A user's separate connection to the store, also when a server has it. */
  async connect(): Promise<Caller> {
    assert.ok(this.name !== 'memory')
    return connects[this.name](await this.storeUrl())
  }

  async storeUrl(): Promise<string> {
    if (this.name === 'memory') return 'memory:'
    this.#own ??= databases[this.name]()
    return (await this.#own).url
  }

  /** Creates the database, its tables and the server, once: that may take seconds, which do not count for a story. */
  #prepare(): Promise<void> {
    this.#prepared ??= this.url().then(async (url) => {
      if (!this.isRemote && this.name !== 'memory') await (await open(url, { migrate: true })).close()
    })
    return this.#prepared
  }

  #skip(name: string, why: string): void {
    test(`${name} (${why})`, { skip: true, concurrent: false }, () => undefined)
  }
}

interface Served extends AsyncDisposable {
  readonly url: string
}

/** A server on a store, in this process and on a separate port. */
async function serve(storeUrl: string): Promise<Served> {
  const box = await open(storeUrl, { migrate: true })
  const server = createServer({ box, port: 0 })
  const { url } = await server.listen()
  return {
    url,
    async [Symbol.asyncDispose]() {
      await server.close({ graceMs: 1_000 })
      await box.close()
    },
  }
}

/** The boxes and workers of one story. The end of the story closes all of them, workers first. */
export class Scene implements AsyncDisposable {
  readonly stage: Stage
  readonly namespace: string = `story-${randomBytes(6).toString('hex')}`
  readonly #boxes: Box[] = []
  readonly #callers: Caller[] = []
  readonly #workers: Worker[] = []

  constructor(stage: Stage) {
    this.stage = stage
  }

  /** Stories treat a remote box as a box; `stage.isRemote` tells them what it refuses. */
  async open(options: OpenOptions = {}): Promise<Box> {
    const migrate = this.stage.isRemote ? {} : { migrate: true }
    const box = await open(await this.stage.url(), { namespace: this.namespace, ...migrate, ...options })
    this.#boxes.push(box)
    return box
  }

  /** Another box on the same store, as another process has; memory has only the one, or its server. */
  async openAnother(first: Box): Promise<Box> {
    return this.stage.name === 'memory' && !this.stage.isRemote ? first : this.open()
  }

  /** A box on the store itself, past any server. */
  async openStore(): Promise<Box> {
    const box = await open(await this.stage.storeUrl(), { namespace: this.namespace })
    this.#boxes.push(box)
    return box
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

  /** The logs in the user's table, seen from outside. */
  async paid(): Promise<readonly string[]> {
    await using caller = await this.stage.connect()
    const rows = await caller.exec('SELECT note FROM paid WHERE scene = ? ORDER BY note', this.namespace)
    return rows.map(({ note }) => String(note))
  }

  /** A running worker; stories poll often, so that none waits a second for its poll. */
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

/** The job, once it has the expected state. Fails with the last state after the time limit. */
export async function jobWhen(
  box: Box,
  id: string,
  isSo: (job: Job) => boolean,
  limitMs = 8_000,
): Promise<Job> {
  const deadline = performance.now() + limitMs
  const pause = createPause()
  for (;;) {
    const job = await box.jobs.find(id)
    if (job && isSo(job)) return job
    if (performance.now() > deadline) assert.fail(`after ${limitMs} ms the job was ${JSON.stringify(job)}`)
    await pause()
  }
}

export function jobIn(box: Box, id: string, state: JobState, limitMs?: number): Promise<Job> {
  return jobWhen(box, id, (job) => job.state === state, limitMs)
}

/** Waits for a condition, up to a limit. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  limitMs = 10_000,
): Promise<void> {
  const deadline = performance.now() + limitMs
  const pause = createPause()
  while (!(await isSo())) {
    if (performance.now() > deadline) assert.fail(`after ${limitMs} ms it was still not so: ${what}`)
    await pause()
  }
}

/** When a signal aborts, with its reason. */
export function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(signal.reason)
    signal.addEventListener('abort', () => resolve(signal.reason))
  })
}

/** A promise that the test settles, for handlers that must not end on their own. */
export function deferred(): PromiseWithResolvers<void> {
  return Promise.withResolvers<void>()
}
