import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { addOne, aJob, claim, ids } from '../jobs/making.ts'
import { addMany, aJobOf, limitsOf, perKey } from './making.ts'

const both = { queues: ['open', 'bound'] }

/** One claim may name queues with limits and queues without. */
export function mixedContract({ open }: Candidate): void {
  test('a claim takes from limited and unlimited queues, up to the number it asks for', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('bound', limitsOf({ concurrency: 2 }))
    await backend.jobs.setLimits('keyed', perKey(1))
    await addMany(backend, 3, { queue: 'open' })
    await addMany(backend, 3, { queue: 'bound' })
    await addMany(backend, 3, { queue: 'keyed', meta: '{"limitKey":"a"}' })
    const queues = ['open', 'bound', 'keyed', 'bound', 'empty']
    const claimed = [...(await claim(backend, { queues, limit: 4 })), ...(await claim(backend, { queues }))]
    assert.equal(new Set(ids(claimed)).size, 6)
    const of = (name: string) => claimed.filter(({ queue }) => queue === name)
    assert.deepEqual([of('open').length, of('bound').length, of('keyed').length], [3, 2, 1])
    assert.deepEqual(
      claimed.map(({ limited }) => limited === true),
      claimed.map(({ queue }) => queue !== 'open'),
    )
    assert.deepEqual(await claim(backend, { queues }), [])
  })

  test('neither limited nor unlimited queues starve, however small the claims are', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('bound', limitsOf({ concurrency: 100 }))
    await backend.jobs.setLimits('keyed', perKey(100))
    const queues = ['open', 'bound', 'keyed']
    const counts = new Map<string, number>()
    for (let round = 0; round < 24; round++) {
      const due = { runAt: 1_000 + round }
      await backend.jobs.add([
        ...[aJob({ queue: 'open', due }), aJob({ queue: 'bound', due })],
        aJobOf(`key ${round}`, { queue: 'keyed', due }),
      ])
      const [job, ...more] = await claim(backend, { queues, limit: 1 })
      assert.deepEqual(more, [])
      counts.set(job!.queue, (counts.get(job!.queue) ?? 0) + 1)
    }
    for (const queue of queues) assert.ok((counts.get(queue) ?? 0) >= 4, JSON.stringify([...counts]))
  })

  test('a full queue blocks no other queue of the same claim', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('bound', limitsOf({ concurrency: 1 }))
    await addMany(backend, 20, { queue: 'bound', priority: 5 })
    assert.equal((await claim(backend, { ...both, limit: 1 })).length, 1)
    const id = await addOne(backend, { queue: 'open' })
    assert.deepEqual(ids(await claim(backend, { ...both, limit: 1 })), [id])
    assert.deepEqual(await claim(backend, both), [])
  })

  test('a paused queue gives no jobs, whatever the limits are', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('bound', limitsOf({ concurrency: 1 }))
    await addMany(backend, 2, { queue: 'bound' })
    const id = await addOne(backend, { queue: 'open' })
    await backend.jobs.pause('bound')
    assert.deepEqual(ids(await claim(backend, both)), [id])
    await backend.jobs.pause('open')
    await addOne(backend, { queue: 'open' })
    await backend.jobs.resume('bound')
    assert.deepEqual(
      (await claim(backend, both)).map(({ queue }) => queue),
      ['bound'],
    )
  })
}
