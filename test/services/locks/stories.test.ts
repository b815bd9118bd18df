import assert from 'node:assert/strict'
import type { AcquireAnswer, LockEvent, Locks } from 'signalbox/locks'
import { describe } from 'vitest'
import { createPause } from '../../support/pause.ts'
import { inGrowingLeases } from '../../support/spans.ts'
import { stages } from './stage.ts'

const pull = { operation: 'pull', resource: 'resource123' }

type Granted = Extract<AcquireAnswer, { status: 'granted' }>

async function granted(locks: Locks, node: string, key: typeof pull = pull): Promise<Granted> {
  const answer = await locks.acquire({ ...key, node })
  assert.equal(answer.status, 'granted', `${node} has ${key.operation}`)
  return answer as Granted
}

async function queued(locks: Locks, node: string, position: number): Promise<void> {
  assert.deepEqual(await locks.acquire({ ...pull, node }), { status: 'queued', position })
}

/** The nodes that wait, in order. */
async function waiting(locks: Locks): Promise<readonly string[]> {
  return (await locks.inspect(pull)).waiters.map(({ node }) => node)
}

/** Waits until there are this many waiters. */
async function waitFor(locks: Locks, key: typeof pull, count: number): Promise<void> {
  const deadline = performance.now() + 10_000
  const pause = createPause()
  while ((await locks.inspect(key)).waiterCount < count) {
    assert.ok(performance.now() < deadline, `${count} wait`)
    await pause()
  }
}

async function nextOf(events: AsyncIterator<LockEvent>, type: string): Promise<LockEvent> {
  for (;;) {
    const { value, done } = await events.next()
    assert.ok(!done, `the stream ended before ${type}`)
    if (value.type === type) return value
  }
}

for (const stage of stages()) {
  describe(stage.title, { concurrent: true }, () => {
    stage.story(
      'scenario 1: within one operation, each failure hands the lock to the next waiter',
      async (pair) => {
        const { one, other } = pair
        const a = await granted(one, 'A')
        await queued(other, 'B', 1)
        await queued(one, 'C', 2)
        assert.deepEqual(await waiting(other), ['B', 'C'])
        assert.deepEqual(await one.release({ ...pull, node: 'A', token: a.token, outcome: 'failure' }), {
          next: 'B',
        })
        assert.deepEqual(await waiting(one), ['C'])
        const b = await granted(other, 'B')
        assert.deepEqual([b.attempt, b.token > a.token], [2, true])
        assert.deepEqual(await other.release({ ...pull, node: 'B', token: b.token, outcome: 'failure' }), {
          next: 'C',
        })
        assert.deepEqual(await waiting(one), [])
        assert.equal((await granted(one, 'C')).attempt, 3)
      },
    )

    stage.story(
      'scenario 2: operations run side by side, and a failure moves only its own wait queue',
      async (pair) => {
        const { one, other } = pair
        const a = await granted(one, 'A')
        const update = { ...pull, operation: 'update' }
        const remove = { ...pull, operation: 'delete' }
        const b = await granted(other, 'B', update)
        const c = await granted(one, 'C', remove)
        await queued(other, 'D', 1)
        assert.deepEqual(await one.release({ ...pull, node: 'A', token: a.token, outcome: 'failure' }), {
          next: 'D',
        })
        await granted(other, 'D')
        assert.equal((await granted(one, 'B', update)).token, b.token)
        assert.equal((await granted(other, 'C', remove)).token, c.token)
      },
    )

    stage.story(
      'scenario 3: a success is notified to all waiters, which check again and stop asking',
      async (pair) => {
        const { one, other } = pair
        const a = await granted(one, 'A')
        await queued(other, 'B', 1)
        const events = other.watch({ ...pull, node: 'B' })[Symbol.asyncIterator]()
        assert.equal((await events.next()).value.type, 'queued')
        assert.deepEqual(
          await one.release({ ...pull, node: 'A', token: a.token, outcome: 'success', result: 'sha256:1' }),
          { next: null },
        )
        const end = await nextOf(events, 'completed')
        assert.equal(end.type === 'completed' && end.result, 'sha256:1')
        const { holder, waiters, lastOutcome } = await one.inspect(pull)
        assert.deepEqual([holder, waiters, lastOutcome?.outcome], [null, [], 'success'])
      },
    )

    stage.story(
      'a node that asks again gets the same answer, whichever server it asks',
      async ({ one, other }) => {
        const a = await granted(one, 'A')
        assert.equal((await granted(other, 'A')).token, a.token)
        await queued(one, 'B', 1)
        await queued(other, 'B', 1)
      },
    )

    stage.story(
      'with multi-node mode off a busy lock is refused, and no waiter queues',
      async ({ one, other }) => {
        await granted(one, 'A')
        const refused = await other.acquire({ ...pull, node: 'B', wait: false })
        assert.equal(refused.status === 'refused' && refused.holder?.node, 'A')
        assert.deepEqual(await waiting(one), [])
      },
    )

    stage.story(
      'ten nodes want one image: one node fetches it, and nine find it there',
      async ({ one, other }) => {
        let image: string | undefined
        let fetches = 0
        const flights = Array.from({ length: 10 }, (_, number) =>
          (number % 2 === 0 ? one : other).singleFlight('pull', 'app:1.2', {
            node: `node-${number}`,
            check: () => image,
            run: async () => {
              fetches++
              await new Promise((resolve) => setTimeout(resolve, 50))
              image = 'sha256:1'
              return image
            },
          }),
        )
        assert.deepEqual(new Set(await Promise.all(flights)), new Set(['sha256:1']))
        assert.equal(fetches, 1)
      },
    )

    stage.story('a holder excludes all others, in order and with rising tokens', async ({ one, other }) => {
      let inside = 0
      const tokens: number[] = []
      await Promise.all(
        Array.from({ length: 8 }, async (_, number) => {
          await using held = await (number % 2 ? one : other).hold('deploy', 'eu-1', { node: `n${number}` })
          assert.equal(++inside, 1)
          tokens.push(held.token)
          await new Promise((resolve) => setTimeout(resolve, 5))
          inside--
        }),
      )
      assert.equal(tokens.length, 8)
      assert.deepEqual(
        tokens,
        [...new Set(tokens)].sort((a, b) => a - b),
      )
    })

    stage.story(
      'a waiter of one box is granted within 2.5 seconds after a release in another box',
      async ({ one, other }) => {
        const first = await one.hold('deploy', 'eu-1', { node: 'a' })
        const waits = other.hold('deploy', 'eu-1', { node: 'b' })
        await waitFor(one, { operation: 'deploy', resource: 'eu-1' }, 1)
        const begunAt = performance.now()
        await first.release({ outcome: 'failure' })
        await using second = await waits
        assert.ok(second.token > first.token)
        assert.ok(performance.now() - begunAt < 2_500, `${performance.now() - begunAt} ms`)
      },
    )

    stage.story(
      'a waiter that has just joined the wait queue is granted without delay, every time',
      async (pair) => {
        const { one, other } = pair
        for (let round = 0; round < 8; round++) {
          const key = { operation: 'deploy', resource: `eu-${round}` }
          const first = await one.hold('deploy', key.resource, { node: 'a' })
          const waits = other.hold('deploy', key.resource, { node: 'b' })
          await waitFor(one, key, 1)
          // Now before it listens, now while it starts to, now while it listens.
          if (round > 0) await new Promise((resolve) => setTimeout(resolve, 2 ** round / 4))
          const begunAt = performance.now()
          await first.release({ outcome: 'failure' })
          await using _second = await waits
          assert.ok(performance.now() - begunAt < 2_500, `round ${round}: ${performance.now() - begunAt} ms`)
        }
      },
    )

    stage.story('a closed box leaves its wait queues, so no other waiter is delayed', async (pair) => {
      const { one, other } = pair
      const held = await one.hold(pull.operation, pull.resource, { node: 'a' })
      const left = assert.rejects(other.hold(pull.operation, pull.resource, { node: 'b' }), {
        code: 'closed',
      })
      await waitFor(one, pull, 1)
      const next = one === other ? undefined : one.hold(pull.operation, pull.resource, { node: 'c' })
      if (next) await waitFor(one, pull, 2)
      await other[Symbol.asyncDispose]()
      await left
      assert.deepEqual(await waiting(one), next ? ['c'] : [])
      const begunAt = performance.now()
      await held.release({ outcome: 'failure' })
      await using _turn = await next
      assert.ok(performance.now() - begunAt < 2_500, `${performance.now() - begunAt} ms`)
    })

    stage.story(
      'an operator who evicts the holder aborts its work and lets the next waiter in',
      ({ one, other }) =>
        inGrowingLeases(600, async (ttlMs, stills) => {
          const held = await one.hold('deploy', 'eu-1', { node: 'a', requestId: 'r', ttlMs })
          const lost = new Promise((resolve) => held.signal.addEventListener('abort', resolve))
          await stills.during(
            other.evict({ operation: 'deploy', resource: 'eu-1', node: 'a', requestId: 'r' }),
          )
          await using next = await other.hold('deploy', 'eu-1', { node: 'b' })
          await lost
          assert.equal((held.signal.reason as { code: string }).code, 'lease_lost')
          await assert.rejects(held.release(), { code: 'lease_lost' })
          assert.ok(next.token > held.token)
        }),
    )

    stage.story('a waiter sees progress, and leaves when its caller aborts', async ({ one, other }) => {
      await using held = await one.hold('deploy', 'eu-1', { node: 'a' })
      const key = { operation: 'deploy', resource: 'eu-1' }
      await other.acquire({ ...key, node: 'b' })
      const gone = new AbortController()
      const events = other.watch({ ...key, node: 'b', signal: gone.signal })[Symbol.asyncIterator]()
      assert.equal((await events.next()).value.type, 'queued')
      await held.progress({ percent: 40 })
      const progress = await nextOf(events, 'progress')
      assert.deepEqual(progress.type === 'progress' && progress.progress, { percent: 40 })
      gone.abort()
      assert.equal((await events.next()).done, true)
      const waits = new AbortController()
      const waited = other.hold('deploy', 'eu-1', { node: 'c', signal: waits.signal })
      await waitFor(one, key, 2)
      waits.abort(new Error('enough'))
      await assert.rejects(waited, /enough/)
      const nodes = (await one.inspect(key)).waiters.map(({ node }) => node)
      assert.ok(!nodes.includes('c'))
    })

    stage.story('a deadline ends the wait with timeout', async ({ one, other }) => {
      await using _held = await one.hold('deploy', 'eu-1', { node: 'a' })
      await assert.rejects(other.hold('deploy', 'eu-1', { node: 'b', deadlineMs: 200 }), { code: 'timeout' })
    })

    stage.story(
      'a reopened stream continues after the last event that its reader saw',
      async ({ one, other }) => {
        const a = await granted(one, 'A')
        await queued(other, 'B', 1)
        const first = other.watch({ ...pull, node: 'B' })[Symbol.asyncIterator]()
        const { value: seen } = await first.next()
        await first.return?.()
        await one.release({ ...pull, node: 'A', token: a.token, outcome: 'failure' })
        const again = other.watch({ ...pull, node: 'B', lastEventId: seen.id })[Symbol.asyncIterator]()
        const [reset, grant] = [(await again.next()).value, (await again.next()).value]
        assert.deepEqual([reset.type, grant.type], ['reset', 'granted'])
        assert.ok(seen.id < reset.id && reset.id < grant.id)
        await again.return?.()
      },
    )
  })
}
