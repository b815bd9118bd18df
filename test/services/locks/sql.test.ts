/** Locks on database servers: what the connection, the server's clock and other sessions can do to a step. */
import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import type { LockKey } from '../../../src/locks/index.ts'
import type { AcquireRequest, LockTimes, Standing } from '../../../src/locks/rules/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { nameWaitQueue } from '../../../src/storage/sql/locks/wait-queue-record.ts'
import { aNamespace, type Candidate, candidates } from '../../conformance/candidates.ts'
import { createProxy, type Fate } from '../../crashes/proxy.ts'

const times: LockTimes = {
  waiterLeaseMs: 60_000,
  streamedTakeUpMs: 60_000,
  takeUpMs: 60_000,
  keepMs: 60_000,
  lockDelayMs: 0,
  maxWaiters: 10_000,
}
const pull: LockKey = { operation: 'pull', resource: 'app:1.2' }
const success = { outcome: 'success', value: '"done"', terminal: false } as const

function askOf(node: string, options: Partial<AcquireRequest> = {}): AcquireRequest {
  const ask = { wait: true, want: 'result', ttlMs: 60_000, deadlineMs: null, isStreamed: false } as const
  return { ...ask, node, requestId: node, ...options }
}

async function ask({ locks }: Backend, node: string, key: LockKey = pull): Promise<Standing> {
  return (await locks.acquire(key, askOf(node), times)).standing
}

async function granted(backend: Backend, node: string, key: LockKey = pull): Promise<number> {
  const standing = await ask(backend, node, key)
  assert.equal(standing.status, 'granted')
  return (standing as { token: number }).token
}

/** Two ways to the same namespace: direct, and over a wire that may be cut. */
async function openBoth({ open, sql }: Candidate, fate: Fate) {
  const database = await sql!.ownDatabase()
  const proxy = await createProxy(database.url, fate)
  const namespace = aNamespace()
  const straight = await open({ url: database.url, namespace })
  const wired = await open({ url: proxy.url, namespace })
  return {
    proxy,
    straight,
    wired,
    async [Symbol.asyncDispose]() {
      await Promise.all([straight.close(), wired.close()])
      await proxy[Symbol.asyncDispose]()
      await database[Symbol.asyncDispose]()
    },
  }
}

for (const candidate of candidates().filter(({ sql }) => sql?.rowLocks)) {
  // The servers run side by side, because most stories wait; the stories of one server run in order.
  describe(candidate.title, { concurrent: true }, () => {
    test('acquiring a free lock takes three round trips, releasing it two', {
      concurrent: false,
    }, async () => {
      let packets = 0
      await using both = await openBoth(candidate, () => {
        packets++
        return undefined
      })
      const { locks } = both.wired
      // The connection is made, and the statements are prepared.
      for (const resource of ['a', 'b']) await granted(both.wired, 'A', { operation: 'pull', resource })
      packets = 0
      const token = await granted(both.wired, 'A')
      assert.equal(packets, 3)
      packets = 0
      await locks.release(pull, { node: 'A', requestId: 'A', token }, success, times)
      assert.equal(packets, 2)
    })

    test('a step whose commit answer was lost is unknown, and a repetition finds it', {
      concurrent: false,
    }, async () => {
      let cuts = 0
      await using both = await openBoth(candidate, ({ isCommit }) => {
        if (!isCommit || cuts === 0) return undefined
        cuts--
        return 'after'
      })
      cuts = 1
      await assert.rejects(ask(both.wired, 'A'), { code: 'commit_unknown' })
      // The engine has the commit; finishing it may take a moment.
      const holder = async () => (await both.straight.locks.inspect(pull, 1))?.holder?.node
      for (const end = performance.now() + 10_000; (await holder()) !== 'A'; )
        assert.ok(performance.now() < end, 'A has it')
      const token = await granted(both.wired, 'A')
      cuts = 1
      const who = { node: 'A', requestId: 'A', token }
      await assert.rejects(both.wired.locks.release(pull, who, success, times), { code: 'commit_unknown' })
      const { released } = await both.wired.locks.release(pull, who, success, times)
      assert.equal(released, undefined, 'it had been released')
    })

    test('steps of many callers share a commit, and when its answer is lost all of them are unknown', {
      concurrent: false,
    }, async () => {
      let [commits, cuts] = [0, 0]
      await using both = await openBoth(candidate, ({ isCommit }) => {
        if (!isCommit) return undefined
        commits++
        return cuts > 0 && cuts-- > 0 ? 'after' : undefined
      })
      const keys = Array.from({ length: 20 }, (_, nr) => ({ operation: 'pull', resource: `of many ${nr}` }))
      const takeAll = () => Promise.all(keys.map((key) => granted(both.wired, 'A', key)))
      const giveBackAll = (tokens: readonly number[]) =>
        Promise.all(
          keys.map((key, nr) => {
            const who = { node: 'A', requestId: 'A', token: tokens[nr]! }
            return both.wired.locks.release(key, who, success, times)
          }),
        )
      await giveBackAll(await takeAll())
      commits = 0
      const tokens = await takeAll()
      assert.ok(commits <= 2, `${commits} commits`)
      assert.deepEqual(await takeAll(), tokens)
      commits = 0
      cuts = 1
      const ends = await Promise.allSettled(
        keys.map((key, nr) => {
          const who = { node: 'A', requestId: 'A', token: tokens[nr]! }
          return both.wired.locks.release(key, who, success, times)
        }),
      )
      const lost = ends.filter((end) => end.status === 'rejected' && end.reason.code === 'commit_unknown')
      assert.ok(lost.length > 1, 'the commit was that of several')
      for (const key of keys)
        while ((await both.straight.locks.inspect(key, 1))?.holder)
          await new Promise((resolve) => setTimeout(resolve, 5))
    })

    test('processes that want the same wait queues at once get them one after the other', {
      concurrent: false,
    }, async () => {
      await using one = await candidate.open()
      const namespace = aNamespace()
      await using two = await candidate.open({ namespace })
      const stores = [one.within(namespace), two]
      const keys = Array.from({ length: 30 }, (_, nr) => ({ operation: 'pull', resource: `wanted ${nr}` }))
      const last = new Map<string, number>()
      for (let round = 0; round < 4; round++) {
        const answers = await Promise.all(
          stores.flatMap(({ locks }, nr) =>
            keys.map(async (key) => {
              const { standing } = await locks.acquire(key, askOf(`node ${nr}`, { wait: false }), times)
              return { key, locks, node: `node ${nr}`, standing }
            }),
          ),
        )
        const taken = answers.flatMap(({ standing, ...rest }) =>
          standing.status === 'granted' ? [{ ...rest, token: standing.token }] : [],
        )
        assert.deepEqual(
          taken.map(({ key }) => key.resource).sort(),
          keys.map(({ resource }) => resource).sort(),
        )
        await Promise.all(
          taken.map(async ({ key, locks, node, token }) => {
            assert.ok(token > (last.get(key.resource) ?? 0), 'tokens of a wait queue rise')
            last.set(key.resource, token)
            const who = { node, requestId: node, token }
            assert.ok((await locks.release(key, who, success, times)).released)
          }),
        )
      }
    })

    test('a step whose connection broke before the commit had no effect', { concurrent: false }, async () => {
      let cuts = 0
      await using both = await openBoth(candidate, ({ isCommit }) => {
        if (isCommit || cuts === 0) return undefined
        cuts--
        return 'after'
      })
      await granted(both.wired, 'A', { operation: 'pull', resource: 'other' })
      cuts = 1
      await assert.rejects(ask(both.wired, 'A'), { code: 'store_unavailable' })
      assert.equal(await both.straight.locks.inspect(pull, 1), undefined)
      assert.equal((await ask(both.straight, 'B')).status, 'granted')
    })

    test('a process that freezes in the middle of a step delays others for seconds only', {
      concurrent: false,
    }, async () => {
      let isArmed = false
      await using both = await openBoth(candidate, () => {
        if (isArmed && ++packets === 2) both.proxy.freeze()
        return undefined
      })
      let packets = 0
      await granted(both.wired, 'A', { operation: 'pull', resource: 'other' })
      isArmed = true
      const frozen = ask(both.wired, 'A').catch((error: unknown) => error)
      while (packets < 2) await new Promise((resolve) => setTimeout(resolve, 5))
      assert.equal((await ask(both.straight, 'B')).status, 'granted')
      both.proxy.thaw()
      // Once awake, it may have sent its COMMIT before it learned that the server had ended the session.
      const { code } = (await frozen) as { code?: string }
      assert.ok(code === 'store_unavailable' || code === 'commit_unknown', code)
      assert.equal((await both.straight.locks.inspect(pull, 1))?.holder?.node, 'B')
    })

    test('steps wait for a locked wait queue and sweeps skip it; other wait queues continue', {
      concurrent: false,
    }, async () => {
      await using backend = await candidate.open()
      const namespace = aNamespace()
      const store = backend.within(namespace)
      const { locks } = store
      const held = await locks.acquire(pull, askOf('A', { ttlMs: 100 }), times)
      assert.equal(held.standing.status, 'granted')
      await using caller = await candidate.sql!.connect()
      await caller.begin()
      const { queueKey } = nameWaitQueue(namespace, pull)
      await (candidate.name === 'postgres'
        ? caller.exec('SELECT pg_advisory_xact_lock(hashtextextended(?, 0))', queueKey)
        : caller.exec('SELECT 1 FROM lock_queue WHERE queue_key = ? FOR UPDATE', queueKey))
      let isThrough = false
      const asked = locks.acquire(pull, askOf('B'), times).finally(() => {
        isThrough = true
      })
      while ((await locks.inspect(pull, 1))?.holder !== null);
      assert.deepEqual(await locks.sweep(10, times), [])
      const other = { operation: 'pull', resource: 'other' }
      assert.equal((await locks.acquire(other, askOf('C'), times)).standing.status, 'granted')
      assert.equal(isThrough, false)
      await caller.rollback()
      assert.equal((await asked).standing.status, 'granted')
    })

    test('the result of a wait queue is stored once, however many waiters it is notified to', {
      concurrent: false,
    }, async () => {
      await using backend = await candidate.open()
      const namespace = aNamespace()
      const { locks } = backend.within(namespace)
      const value = JSON.stringify('x'.repeat(200_000))
      const { standing } = await locks.acquire(pull, askOf('A'), times)
      const nodes = Array.from({ length: 300 }, (_, nr) => `waiter ${nr}`)
      await Promise.all(nodes.map((node) => locks.acquire(pull, askOf(node), times)))
      const who = { node: 'A', requestId: 'A', token: (standing as { token: number }).token }
      await locks.release(pull, who, { outcome: 'success', value, terminal: false }, times)
      await using caller = await candidate.sql!.connect()
      const [kept] = await caller.exec(
        'SELECT count(*) AS count FROM lock_result WHERE namespace = ?',
        namespace,
      )
      assert.equal(Number(kept!.count), 1)
      for (const node of nodes.slice(-3)) {
        const notified = (await locks.acquire(pull, askOf(node), times)).standing
        assert.deepEqual(notified, { status: 'ended', kind: 'completed', value })
      }
    })
  })
}
