/**
 * Redis does what the memory model does in a random walk: both take the same steps at the same instant of a clock that
 * the walk moves, and every answer is compared, down to the revision. Now and then an answer of Redis is lost and the
 * step is sent again, which must have the same result.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'vitest'
import type { LockKey, LockStore, WaitQueueView } from '../../../src/locks/index.ts'
import type { LockTimes, Notified, Requester, Ruled, Standing } from '../../../src/locks/rules/index.ts'
import { createMemoryLocks } from '../../../src/storage/memory/locks.ts'
import { Connection, type ScriptRunner } from '../../../src/storage/redis/connection.ts'
import { createRedisLocks } from '../../../src/storage/redis/locks.ts'
import { Recovery } from '../../../src/storage/redis/recovery.ts'
import { Stepper } from '../../../src/storage/redis/stepper.ts'
import { Random } from '../../conformance/random.ts'
import { hasService, serviceFacts } from '../../support/services/own.ts'

/** `WALK_SEED` repeats one walk; without it, new walks run for `WALK_MS`. */
const { WALK_SEED, WALK_STEPS, WALK_MS } = process.env
const steps = Number(WALK_STEPS ?? 1_500)
const budgetMs = Number(WALK_MS ?? 3_000)
const busySights = ['granted', 'queued', 'ended', 'refused', 'full', 'released', 'swept']
const calmSights = ['granted', 'refused', 'released', 'taken the short way']

const longSteps = [1, 1, 1, 2, 10, 100, 1_000, 1_999, 2_000, 5_000, 10_000, 30_000, 61_000]
const shortSteps = [0, 0, 1, 1, 1, 1, 2, 10, 100]

const outcomes = ['success', 'failure'] as const
const operations = ['pull', 'push']
const resources = ['app:1.2', '{x}%']
const whos: readonly Requester[] = ['a', 'b', 'c', 'd'].flatMap((node) =>
  ['1', '2'].map((requestId) => ({ node, requestId })),
)

describe.runIf(hasService('redis'))('on Redis', () => {
  for (const [isLossy, isCalm] of [
    [false, false],
    [true, false],
    [true, true],
  ] as const) {
    const how = `${isCalm ? ', through wait queues with few waiters' : ''}${isLossy ? ', and repeats lost answers' : ''}`
    test(`Redis does what the memory model does in a random walk${how}`, async () => {
      const first = WALK_SEED === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(WALK_SEED)
      const began = Date.now()
      let walks = 0
      const counts = new Map<string, number>()
      const sights = isCalm ? calmSights : busySights
      // Rare cases may need one more walk.
      const isShort = () => {
        const ms = Date.now() - began
        return (
          ms < (isCalm ? budgetMs / 3 : budgetMs) ||
          (ms < 10 * budgetMs && sights.some((name) => !counts.has(name)))
        )
      }
      do {
        await using walk = await openWalk(first + walks, isLossy, isCalm)
        for (let step = 0; step < steps; step++) {
          const name = await walk.step().catch((error) => {
            error.message = `walk ${first + walks}, step ${step}: ${error.message}`
            throw error
          })
          counts.set(name, (counts.get(name) ?? 0) + 1)
        }
        await walk.settle()
        if (walk.shortWays > 0) counts.set('taken the short way', walk.shortWays)
        walks++
      } while (WALK_SEED === undefined && isShort())
      for (const name of sights) assert.ok(counts.has(name), `the walk came by "${name}"`)
      if (isCalm) console.log(`[walk] ${counts.get('taken the short way')} steps of the last were short`)
      console.log(`[walk] redis${how}: ${walks} walks of ${steps} steps from seed ${first}`)
    }, 60_000)
  }

  test('tokens of a key rise also when the clock of Redis is set back, a little or a lot', async () => {
    const recovery = new Recovery()
    const connection = new Connection(serviceFacts('redis').url, recovery)
    await connection.open()
    let now = Date.now() + 1_000
    const stepper = new Stepper(
      connection,
      () => false,
      () => now,
    )
    const locks = createRedisLocks(
      { connection, stepper, recovery },
      `clock-${randomBytes(6).toString('hex')}`,
    )
    const times = {
      waiterLeaseMs: 1,
      streamedTakeUpMs: 1,
      takeUpMs: 1,
      keepMs: 1,
      lockDelayMs: 0,
      maxWaiters: 1,
    }
    const key = { operation: 'pull', resource: 'app:1.2' }
    const who = { node: 'a', requestId: '1' }
    let last = 0
    for (const ms of [0, 0, 1, -1, -4_000, 10, 3_000, -6_000, 1, -3_600_000, 1, 0, 3_600_000, 10_000, 0]) {
      now += ms
      const ask = {
        ...who,
        wait: true,
        want: 'turn',
        ttlMs: 1_000,
        deadlineMs: null,
        isStreamed: false,
      } as const
      const { standing } = await locks.acquire(key, ask, times)
      assert.equal(standing.status, 'granted')
      const { token } = standing as { token: number }
      assert.ok(token > last, `${token} after ${last}, the clock having gone by ${ms} ms`)
      assert.ok(Number.isSafeInteger(token))
      last = token
      await locks.release(key, { ...who, token }, { outcome: 'failure', value: null, terminal: false }, times)
    }
    await connection.close()
  })
})

interface Pair {
  readonly model: LockStore
  readonly redis: LockStore
}

async function openWalk(seed: number, isLossy: boolean, isCalm: boolean): Promise<Walk> {
  const recovery = new Recovery()
  const connection = new Connection(await placeFor(isCalm), recovery)
  await connection.open()
  return new Walk(seed, isLossy, isCalm, connection, recovery)
}

/**
 * Walks leave tokens that are hours ahead of the time, above which the short path grants none. So calm walks have a
 * separate database, without the data of earlier ones.
 */
async function placeFor(isCalm: boolean): Promise<string> {
  const url = new URL(serviceFacts('redis').url)
  if (!isCalm) return url.href
  url.pathname = '/9'
  const connection = new Connection(url.href, new Recovery())
  await connection.open()
  await connection.send(['FLUSHDB'])
  await connection.close()
  return url.href
}

class Walk implements AsyncDisposable {
  /** From now on, and never behind: Redis removes keys by its own clock. */
  #now = Date.now() + 1_000
  readonly #random: Random
  readonly #namespace: string
  readonly #connection: Connection
  readonly #stores: Pair
  readonly #times: LockTimes
  /** Redis's token for each of the model's. */
  readonly #tokens = new Map<number, number>()
  /** The last token that each requester got for a key, as the model has it. */
  readonly #held = new Map<string, number>()
  readonly #highest = new Map<string, number>()
  /** Whether the answer of the present step was lost once: notifications of a lost answer are not repeated. */
  #isLost = false
  /** Few steps wait, and wait queues are used again soon: the case of scripts/quick.ts. */
  readonly #isCalm: boolean
  #stepCount = 0
  /** Steps that took the short path. */
  shortWays = 0

  constructor(seed: number, isLossy: boolean, isCalm: boolean, connection: Connection, recovery: Recovery) {
    this.#random = new Random(seed)
    this.#isCalm = isCalm
    this.#connection = connection
    const lossy: ScriptRunner = {
      run: async (script, keys, args, again) => {
        const reply = await connection.run<readonly unknown[]>(script, keys, args, again)
        if (typeof reply[0] === 'number' && reply[0] <= 0) this.shortWays++
        if (!isLossy || again === undefined || !this.#random.chance(0.3)) return reply as never
        this.#isLost = true
        return connection.run(script, keys, again, again)
      },
    }
    const now = () => this.#now
    const stepper = new Stepper(lossy, () => recovery.isClustered, now)
    this.#namespace = `walk-${seed}-${randomBytes(4).toString('hex')}`
    this.#stores = {
      model: createMemoryLocks(now),
      redis: createRedisLocks({ connection: lossy, stepper, recovery }, this.#namespace),
    }
    this.#times = {
      waiterLeaseMs: 30_000,
      streamedTakeUpMs: 2_000,
      takeUpMs: 10_000,
      keepMs: isCalm ? 60_000 : this.#random.pick([20_000, 60_000]),
      lockDelayMs: this.#random.pick([0, 5_000]),
      maxWaiters: 3,
      // In every other walk the two operations exclude each other.
      ...(seed % 2 === 1 && !isCalm && { conflicts: [['pull', 'push']] as const }),
    }
  }

  /** One step on both. Returns its kind. */
  async step(): Promise<string> {
    // A renewal that is sent again counts once more, which is visible only in the same millisecond.
    if (this.#isLost) this.#now += 1
    this.#now += this.#random.pick(this.#isCalm && this.#random.chance(0.97) ? shortSteps : longSteps)
    this.#isLost = false
    // A wait queue with a waiter or an expired lease never takes the short path again, so calm walks move on to other
    // wait queues.
    const resource = this.#isCalm ? `app:${this.#stepCount++ >> 6}` : this.#random.pick(resources)
    const key = { operation: this.#random.pick(operations), resource }
    const who = this.#random.pick(this.#isCalm ? whos.slice(0, 2) : whos)
    const dice = this.#isCalm && this.#random.chance(0.9) ? this.#random.below(60) : this.#random.below(100)
    if (dice < 38) return this.#acquire(key, who)
    if (dice < 58) return this.#release(key, this.#holder(key, who))
    if (dice < 66) return this.#renew(key, this.#holder(key, who))
    if (dice < 69) return this.#shorten(key, this.#holder(key, who))
    if (dice < 74) return this.#leave(key, who)
    if (dice < 77) return this.#evict(key, who)
    if (dice < 87) return this.#keep(key, who)
    if (dice < 93) return this.#sweep()
    if (dice < 96) return this.#list()
    return this.#inspect(key)
  }

  /** Lets every lease expire. Afterwards only keys with an expiry time may be left. */
  async settle(): Promise<void> {
    for (let hour = 0; hour < 5; hour++) {
      this.#now += 3_600_000
      await this.#sweep()
    }
    assert.deepEqual(await this.#stores.redis.list({ limit: 10 }), [])
    const left: string[] = []
    for (let cursor = '0'; ; ) {
      const match = ['MATCH', `signalbox:*:${this.#namespace}*`, 'COUNT', '1000']
      const [next, keys] = await this.#connection.send<[string, string[]]>(['SCAN', cursor, ...match])
      for (const key of keys) if ((await this.#connection.send<number>(['PTTL', key])) < 0) left.push(key)
      if (next === '0') break
      cursor = next
    }
    assert.deepEqual(left, [], 'no key is left for ever')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection.close()
  }

  async #acquire(key: LockKey, who: Requester): Promise<string> {
    const ask = {
      ...who,
      wait: this.#random.chance(this.#isCalm ? 0.01 : 0.85),
      want: this.#random.pick(['result', 'turn'] as const),
      ttlMs: this.#random.pick(this.#isCalm ? [1_000, 30_000, 30_000, 30_000] : [1_000, 30_000]),
      deadlineMs: this.#random.chance(0.2) ? this.#random.pick([1, 3_000, 20_000]) : null,
      isStreamed: this.#random.chance(0.4),
    }
    const { model, redis } = this.#stores
    const expected = await model.acquire(key, ask, this.#times)
    const actual = await redis.acquire(key, ask, this.#times)
    this.#compareStandings(key, who, expected.standing, actual.standing)
    this.#compareNotified(expected, actual)
    return expected.standing.status
  }

  async #release(key: LockKey, who: Requester & { token: number }): Promise<string> {
    const outcome = this.#isCalm && this.#random.chance(0.9) ? 'success' : this.#random.pick(outcomes)
    const terminal = outcome === 'failure' && this.#random.chance(0.3)
    const isPlain = this.#isCalm && this.#random.chance(0.97)
    const end = {
      outcome,
      terminal,
      value: isPlain ? null : this.#random.pick([null, '"1"', '{"image":"ä"}']),
    }
    const { model, redis } = this.#stores
    const expected = await model.release(key, who, end, this.#times)
    const actual = await redis.release(key, this.#onRedis(who), end, this.#times)
    assert.deepEqual(actual.released, expected.released)
    if (expected.released) this.#compareNotifiedExactly(expected, actual)
    else this.#compareNotified(expected, actual)
    return expected.released ? 'released' : 'lost'
  }

  async #renew(key: LockKey, who: Requester & { token: number }): Promise<string> {
    const terms = {
      ttlMs: this.#random.pick([1_000, 30_000, 60_000]),
      progress: this.#random.pick([undefined, null, '50', '{"percent":"½"}']),
    }
    const { model, redis } = this.#stores
    const expected = await model.renew(key, who, terms, this.#times)
    const actual = await redis.renew(key, this.#onRedis(who), terms, this.#times)
    assert.equal(actual.expiresAt, expected.expiresAt)
    this.#compareNotified(expected, actual)
    return 'renewed'
  }

  async #shorten(key: LockKey, who: Requester & { token: number }): Promise<string> {
    const toMs = this.#random.pick([0, 2_000, 90_000])
    const { model, redis } = this.#stores
    const expected = await model.shorten(key, who, toMs, this.#times)
    const actual = await redis.shorten(key, this.#onRedis(who), toMs, this.#times)
    assert.equal(actual.shortened, expected.shortened)
    this.#compareNotified(expected, actual)
    return 'shortened'
  }

  async #leave(key: LockKey, who: Requester): Promise<string> {
    const { model, redis } = this.#stores
    const expected = await model.leave(key, who, this.#times)
    const actual = await redis.leave(key, who, this.#times)
    assert.equal(actual.left, expected.left)
    if (expected.left === true) this.#compareNotifiedExactly(expected, actual)
    else this.#compareNotified(expected, actual)
    return 'left'
  }

  async #evict(key: LockKey, who: Requester): Promise<string> {
    const { model, redis } = this.#stores
    const expected = await model.evict(key, who, this.#times)
    const actual = await redis.evict(key, who, this.#times)
    assert.equal(actual.evicted, expected.evicted)
    if (expected.evicted) this.#compareNotifiedExactly(expected, actual)
    else this.#compareNotified(expected, actual)
    return 'evicted'
  }

  async #keep(key: LockKey, who: Requester): Promise<string> {
    const options = { isStreamed: this.#random.chance(0.5) }
    const { model, redis } = this.#stores
    const expected = await model.keep(key, who, options, this.#times)
    const actual = await redis.keep(key, who, options, this.#times)
    this.#compareStandings(key, who, expected.standing, actual.standing)
    this.#compareNotified(expected, actual)
    return 'kept'
  }

  async #sweep(): Promise<string> {
    const { model, redis } = this.#stores
    const expected = tellings(await model.sweep(1_000, this.#times))
    const actual = tellings(await redis.sweep(1_000, this.#times))
    if (!this.#isLost) assert.deepEqual(actual, expected)
    return expected.length > 0 ? 'swept' : 'nothing to sweep'
  }

  async #list(): Promise<string> {
    const query = {
      limit: this.#random.pick([1, 2, 10]),
      ...(this.#random.chance(0.3) && { operation: this.#random.pick(operations) }),
      ...(this.#random.chance(0.3) && { search: this.#random.pick(['x', ':', '%']) }),
      ...(this.#random.chance(0.3) && { after: { operation: 'pull', resource: 'app:1.2' } }),
    }
    assert.deepEqual(await this.#stores.redis.list(query), await this.#stores.model.list(query))
    return 'listed'
  }

  async #inspect(key: LockKey): Promise<string> {
    const limit = this.#random.pick([0, 2, 10])
    const expected = this.#seen(await this.#stores.model.inspect(key, limit))
    const actual = this.#seen(await this.#stores.redis.inspect(key, limit))
    assert.deepEqual(actual, expected)
    return 'inspected'
  }

  /** Expired data may be forgotten or not. Revisions are compared where they are made. */
  #seen(view: WaitQueueView | undefined): unknown {
    if (!view) return undefined
    const { revision: _, lastOutcome, ...rest } = view
    const isOver = lastOutcome === null || lastOutcome.at + this.#times.keepMs <= this.#now
    if (isOver && !view.holder && view.waiterCount === 0) return undefined
    return { ...rest, lastOutcome: isOver ? null : lastOutcome }
  }

  /** Mostly the holder of the key, with its token; sometimes another requester or another token. */
  #holder(key: LockKey, who: Requester): Requester & { token: number } {
    const holders = whos.filter((one) => this.#held.has(placeOf(key, one)))
    const one = holders.length > 0 && this.#random.chance(0.9) ? this.#random.pick(holders) : who
    return { ...one, token: this.#held.get(placeOf(key, one)) ?? 1 }
  }

  #onRedis(who: Requester & { token: number }): Requester & { token: number } {
    return { ...who, token: this.#tokens.get(who.token) ?? who.token }
  }

  #compareStandings(
    key: LockKey,
    who: Requester,
    expected: Standing | undefined,
    actual: Standing | undefined,
  ): void {
    if (expected?.status !== 'granted' || actual?.status !== 'granted') {
      assert.deepEqual(actual, expected)
      return
    }
    const known = this.#tokens.get(expected.token)
    if (known === undefined) {
      const name = `${key.operation} ${key.resource}`
      assert.ok(actual.token > (this.#highest.get(name) ?? 0), 'tokens rise')
      this.#highest.set(name, actual.token)
      this.#tokens.set(expected.token, actual.token)
    }
    this.#held.set(placeOf(key, who), expected.token)
    assert.deepEqual(actual, { ...expected, token: this.#tokens.get(expected.token) })
  }

  /** The notifications of a step, except where its answer was lost: the repetition may have none. */
  #compareNotified(expected: Ruled<object>, actual: Ruled<object>): void {
    if (!this.#isLost) this.#compareNotifiedExactly(expected, actual)
  }

  #compareNotifiedExactly(expected: Ruled<object>, actual: Ruled<object>): void {
    // An expired lease is reported once, for counters: the lost answer had it.
    const expectedNotified = { ...expected.notified }
    if (this.#isLost) delete expectedNotified.lapsed
    assert.deepEqual(actual.notified, expectedNotified)
    if (!this.#isLost) assert.deepEqual(actual.elsewhere, expected.elsewhere)
    // A forgotten wait queue starts again, and the model forgets at its own time.
    if (expected.notified.changed) assert.equal(actual.revision, expected.revision)
  }
}

function placeOf({ operation, resource }: LockKey, { node, requestId }: Requester): string {
  return [operation, resource, node, requestId].join(' ')
}

/** The notified requests by wait queue, independent of their order. */
function tellings(
  swept: readonly { readonly key: LockKey; readonly notified: Notified }[],
): readonly string[] {
  return swept
    .flatMap(({ key, notified }) => [
      `${key.operation} ${key.resource} changed`,
      ...notified.requesters.map(
        ({ node, requestId }) => `${key.operation} ${key.resource} ${node} ${requestId}`,
      ),
    ])
    .filter((queue, index, all) => !queue.endsWith('changed') || all.indexOf(queue) === index)
    .sort()
}
