import assert from 'node:assert/strict'
import { type Box, open, type RemoteBox } from 'signalbox'
import { test } from 'vitest'
import { within } from '../../support/deadline.ts'
import { inGrowingLeases } from '../../support/spans.ts'
import { type Stage, serving } from '../server/stage.ts'

/** The verbs of guards through a server: as in process, but for transactions. */

type Rooms = Pick<Box, 'once'> | Pick<RemoteBox, 'once'>

async function stage(): Promise<Stage & { readonly remote: RemoteBox }> {
  const served = await serving()
  const remote = await open(served.url as 'http://x')
  return {
    ...served,
    remote,
    async [Symbol.asyncDispose]() {
      await remote.close()
      await served[Symbol.asyncDispose]()
    },
  }
}

/** What every verb answers, in order; tokens and times aside. */
async function story({ once }: Rooms): Promise<readonly unknown[]> {
  const answers: unknown[] = []
  const note = (answer: unknown) => void answers.push(answer)
  const claimed = await once.claim('k', { leaseMs: '30s', keepMs: '1d' })
  assert.ok(claimed.status === 'run')
  const { token } = claimed
  note(claimed.attempt)
  note((await once.claim('k')).status)
  note((await once.claim('print', { fingerprint: 'f' })).status)
  note(await once.claim('print', { fingerprint: 'g' }).catch(({ code, message }) => [code, message]))
  note(typeof (await once.renew('k', token)).expiresAt)
  note(typeof (await once.renew('k', token, '1m')).expiresAt)
  note(await once.done('k', token, { a: [1, undefined] }).catch(({ code, message }) => [code, message]))
  note(await once.done('k', token, 'x'.repeat(300_000)).catch(({ code, message }) => [code, message]))
  note(await once.done('k', token, { a: [1, null], b: undefined }))
  note(await once.claim('k'))
  note(await once.done('k', token).catch(({ code, message }) => [code, message]))
  note(await once.fail('k', token).catch(({ code }) => code))
  note((await once.claimMany(['a', 'k', 'a'])).map(({ status }) => status))
  note(await once.claimMany([]))
  const many = Array.from({ length: 1_001 }, String)
  note(await once.claimMany(many).catch(({ code }) => code))
  note(await once.claim('', {}).catch(({ code }) => code))
  note(await once.claim('k', { nope: 1 } as object).catch(({ code }) => code))
  note(await once.seen({ subject: ['s'], state: { b: 1, a: 2 } }))
  note(await once.seen({ subject: ['s'], state: { a: 2, b: 1 } }, { windowMs: '1m', by: 'state' }))
  note(await once.seen({ subject: ['s'], state: new Date(0) }).catch(({ code, message }) => [code, message]))
  note(await once.seen({ subject: ['s'], state: undefined }))
  note(await once.run('r', () => Number.NaN).catch(({ code }) => code))
  note(await once.run('r', ({ attempt }) => ({ attempt })))
  note(await once.run('r', () => 'not again'))
  note(
    await once
      .run('broken', () => {
        throw new Error('no')
      })
      .catch(({ message }) => message),
  )
  note(await once.run('broken', ({ attempt }) => attempt))
  note(await once.processing('t', () => once.processing('t', () => 'both')).then(withoutTime))
  note(await once.processing('t', () => 7, { ttlMs: '10s' }))
  const { items, cursor } = await once.list({ search: 'k', limit: 5, cursor: null })
  note([items.map(({ key, status, mode }) => [key, status, mode]), cursor])
  note([await once.forget('k'), await once.forget('k')])
  note((await once.claim('k')).status)
  note(once.eventId({ source: 's', timeSlot: 't', venueId: 'v', from: 1, to: 2 }))
  note(await once.stats())
  return answers
}

function withoutTime(answer: { readonly result?: unknown }): unknown {
  const { retryInMs, ...rest } = answer.result as { retryInMs?: number }
  assert.ok((retryInMs ?? 0) > 0)
  return { ...answer, result: rest }
}

test('guards behind a server answer every method as guards on the store itself do', async () => {
  await using box = await open('memory:')
  await using served = await stage()
  const [here, there] = [await story(box), await story(served.remote)]
  assert.deepEqual(there, here)
})

test('a remote run that is longer than its lease renews the lease', async () => {
  await inGrowingLeases(400, async (leaseMs) => {
    await using served = await stage()
    let second: unknown
    const answer = await served.remote.once.run(
      'long',
      async ({ signal }) => {
        await new Promise((resolve) => setTimeout(resolve, 3 * leaseMs))
        const { guards } = served.box.backend.within('default')
        second = (await guards.list({ space: 'once', limit: 1 })).items[0]?.status
        assert.equal(signal.aborted, false)
        return 'done'
      },
      { leaseMs },
    )
    assert.deepEqual([answer, second], [{ ran: true, result: 'done' }, 'running'])
  })
}, 60_000)

test('a remote run whose claim is lost learns of it while it runs, and its result is not kept', async () => {
  await using served = await stage()
  const { once } = served.remote
  for (const run of ['run', 'processing'] as const) {
    const space = run === 'run' ? 'once' : 'processing'
    const work = async ({ signal }: { signal: AbortSignal }) => {
      const lost = new Promise((resolve) => signal.addEventListener('abort', resolve))
      assert.equal(await once.forget('k', { space }), true)
      await within(5_000, 'the loss', lost)
      return 'late'
    }
    const running =
      run === 'run' ? once.run('k', work, { leaseMs: 1_500 }) : once.processing('k', work, { ttlMs: 1_500 })
    await assert.rejects(running, { code: 'lease_lost' })
    assert.equal((await once.claim('k', { space })).status, 'run')
  }
})

test('a remote box refuses transactions, and a server that is gone is an error, not a policy', async () => {
  const served = await stage()
  const { once } = served.remote
  const tx = {}
  for (const call of [
    () => once.claim('k', { tx }),
    () => once.claimMany(['k'], { tx }),
    () => once.done('k', 't', 1, { tx }),
    () => once.fail('k', 't', { tx }),
    () => once.seen({ subject: ['a'], state: 1 }, { tx }),
    () => once.run('k', () => 1, { tx }),
  ])
    await assert.rejects(call(), { code: 'transaction_unsupported' })
  const other = await open(served.url as 'http://x', { timeoutMs: 1_000 })
  await served[Symbol.asyncDispose]()
  await assert.rejects(other.once.claim('k'), ({ code }) =>
    ['store_unavailable', 'timeout', 'unreachable'].includes(code),
  )
  await other.close()
})
