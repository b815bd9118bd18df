/**
 * The stage for stories of locks: two boxes on one store, as two processes have, on every engine. Over the wire, each box
 * is remote and, but for memory, has a separate server on the same store. It uses only the public surface.
 *
 *   BACKENDS=memory,redis npx vitest run test/services/locks               only those
 *   npx vitest run test/services/locks -t 'over the wire'                  only that way
 */
import { randomBytes } from 'node:crypto'
import { type Box, type OpenOptions, open, type RemoteBox } from 'signalbox'
import type { Locks } from 'signalbox/locks'
import { createServer } from 'signalbox/server'
import { afterAll, test } from 'vitest'
import { ownSqlite } from '../../conformance/candidates.ts'
import { within } from '../../support/deadline.ts'
import { hasService, ownMariadb, ownPostgres, ownRedis } from '../../support/services/own.ts'

type Opening = AsyncDisposable & { readonly url: string; readonly redis?: string }

const engines: Readonly<Record<string, () => Promise<Opening>>> = {
  memory: async () => ({ url: 'memory:', async [Symbol.asyncDispose]() {} }),
  sqlite: ownSqlite,
  postgres: ownPostgres,
  mariadb: ownMariadb,
  // Redis is the second address of a box; the store of the other modules does not matter here.
  async redis() {
    const { url: redis, ...own } = await ownRedis()
    return { url: 'memory:', redis, [Symbol.asyncDispose]: () => own[Symbol.asyncDispose]() }
  },
}

/** Two boxes that use the same locks, and their common settings. */
export interface Pair {
  readonly one: Locks
  readonly other: Locks
  readonly isRemote: boolean
}

/** One engine, reached in one way. */
export class Stage {
  readonly title: string
  readonly #isRemote: boolean
  readonly #engine: string
  #own: Promise<Opening> | undefined
  #served: Promise<Served> | undefined

  constructor(engine: string, isRemote: boolean) {
    this.#engine = engine
    this.#isRemote = isRemote
    this.title = isRemote ? `${engine} over the wire` : engine
    afterAll(async () => {
      await (await this.#served)?.[Symbol.asyncDispose]()
      await (await this.#own)?.[Symbol.asyncDispose]()
    })
  }

  /** A test; the story fails after `limitMs`, whatever hangs. Engines run side by side, the stories of one in order. */
  story(name: string, story: (pair: Pair) => Promise<void>, limitMs = 20_000): void {
    test(name, { timeout: limitMs + 10_000, concurrent: false }, async () => {
      await using stack = new AsyncDisposableStack()
      const [one, other] = await this.#open(stack)
      const pair = { one: one.locks, other: other.locks, isRemote: this.#isRemote }
      await within(limitMs, `"${name}" on ${this.title}`, story(pair))
    })
  }

  async #open(stack: AsyncDisposableStack): Promise<readonly [Box | RemoteBox, Box | RemoteBox]> {
    this.#own ??= engines[this.#engine]!()
    const namespace = await this.#namespace('story')
    if (!this.#isRemote) {
      const [one, other = one] = await this.#openStores(stack, namespace)
      return [one!, other!]
    }
    this.#served ??= this.#serve()
    const { urls } = await this.#served
    const openRemote = async (url: string) => stack.use(await open(url as 'http://', { namespace }))
    return [await openRemote(urls[0]!), await openRemote(urls.at(-1)!)]
  }

  /** A new namespace; in a Redis that others may use as well, its name shows that it is a test's. */
  async #namespace(what: string): Promise<string> {
    const { redis } = await this.#own!
    return `${redis ? 'signalbox-test-' : ''}${what}-${randomBytes(6).toString('hex')}`
  }

  /** Two boxes on one store; memory is in one process only, so there is one. */
  async #openStores(stack: AsyncDisposableStack, namespace: string): Promise<readonly Box[]> {
    const { url, redis } = await this.#own!
    const options: OpenOptions = { namespace, migrate: true, ...(redis ? { redis } : {}) }
    const stores = [stack.use(await open(url, options))]
    if (this.#engine !== 'memory') stores.push(stack.use(await open(url, options)))
    return stores
  }

  /** A server for each of them, once for all stories. */
  async #serve(): Promise<Served> {
    await using stack = new AsyncDisposableStack()
    const urls: string[] = []
    for (const box of await this.#openStores(stack, await this.#namespace('servers'))) {
      const server = stack.use(createServer({ box, port: 0, graceMs: 1_000 }))
      urls.push((await server.listen()).url)
    }
    const kept = stack.move()
    return { urls, [Symbol.asyncDispose]: () => kept.disposeAsync() }
  }
}

interface Served extends AsyncDisposable {
  readonly urls: readonly string[]
}

/** The engines of this run, each in process and over the wire. */
export function stages(): readonly Stage[] {
  const named = process.env.BACKENDS?.split(',').map((text) => text.trim())
  return Object.keys(engines)
    .filter((name) => named === undefined || named.includes(name))
    .filter((name) => name === 'memory' || name === 'sqlite' || hasService(name as 'redis'))
    .flatMap((name) => [new Stage(name, false), new Stage(name, true)])
}
