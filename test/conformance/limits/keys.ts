import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { ClaimedRecord } from '../../../src/jobs/index.ts'
import type { Candidate } from '../candidates.ts'
import { aJob, claim, ids, lapse, settleOne, shortMs } from '../jobs/making.ts'
import { Random } from '../random.ts'
import { addInOrder, addMany, aJobOf, limitsOf, perKey, settleEach } from './making.ts'

/** Each key has its own limits, and none delays another. */
export function keysContract({ open }: Candidate): void {
  test('each key has its own concurrency limit; jobs without a key count only for the queue', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', { ...perKey(1), concurrency: 5 })
    const all = await addInOrder(backend, [
      ...[aJobOf('ada'), aJobOf('ada'), aJob(), aJobOf('bob'), aJob(), aJobOf('bob')],
      ...[aJobOf('cy'), aJob(), aJobOf('dot')],
    ])
    const claimed = await claim(backend)
    assert.deepEqual(
      ids(claimed),
      [0, 2, 3, 4, 6].map((at) => all[at]),
    )
    assert.deepEqual(await claim(backend), [])
    // The end of Bob's job frees a slot of the queue and of Bob.
    await settleOne(backend, claimed[2]!)
    assert.deepEqual(ids(await claim(backend)), [all[5]])
  })

  test('a key without a free slot blocks no other key, however many of its jobs wait in front', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', perKey(2))
    const greedy = await addInOrder(
      backend,
      Array.from({ length: 3_000 }, () => aJobOf('greedy')),
    )
    const [modest, plain] = [aJobOf('modest'), aJob()]
    await backend.jobs.add([modest, plain])
    const claimed = await claim(backend, { limit: 5 })
    assert.deepEqual(ids(claimed), [...greedy.slice(0, 2), ...[modest.id, plain.id].sort(byAge(claimed))])
    assert.deepEqual(await claim(backend, { limit: 5 }), [])
    await settleOne(backend, claimed[0]!)
    assert.deepEqual(ids(await claim(backend, { limit: 5 })), [greedy[2]])
  })

  test('jobs of one key are claimed in order, and keys in the order of their first jobs', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', perKey(1))
    const [a1, b1, a2, b2, c1] = await addInOrder(backend, [
      ...[aJobOf('a'), aJobOf('b', { priority: 5 }), aJobOf('a', { priority: 3 })],
      ...[aJobOf('b', { priority: 5 }), aJobOf('c', { priority: 4 })],
    ])
    const first = await claim(backend)
    assert.deepEqual(ids(first), [b1, c1, a2])
    await settleEach(backend, first)
    assert.deepEqual(ids(await claim(backend, { limit: 1 })), [b2])
    assert.deepEqual(ids(await claim(backend, { limit: 1 })), [a1])
  })

  test('the limit of the queue holds over all its keys together', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', { ...perKey(2), concurrency: 3 })
    const all = await addInOrder(backend, [aJobOf('a'), aJobOf('a'), aJobOf('a'), aJobOf('b'), aJobOf('b')])
    assert.deepEqual(ids(await claim(backend)), [all[0], all[1], all[3]])
    assert.deepEqual(await claim(backend), [])
  })

  test('each claim in a row takes what the limits allow, whatever has ended in between', async () => {
    for (const [seed, limits] of [
      perKey(1),
      { ...perKey(3), concurrency: 9 },
      limitsOf({ concurrency: 4 }),
    ].entries()) {
      await using backend = await open()
      await backend.jobs.setLimits('mail', limits)
      const random = new Random(seed)
      const keyOf = new Map<string, string>()
      const jobs = Array.from({ length: 60 }, () => {
        const key = random.pick(['', 'a', 'b', 'c', 'd', 'e', 'f'])
        const job =
          key === '' ? aJob({ priority: random.below(3) }) : aJobOf(key, { priority: random.below(3) })
        keyOf.set(job.id, key)
        return job
      })
      await addInOrder(backend, jobs)
      // Sorting is stable: among equal jobs the first one added comes first.
      const line = jobs.toSorted((a, b) => b.priority - a.priority).map(({ id }) => id)
      const running: ClaimedRecord[] = []
      while (line.length > 0) {
        const limit = 1 + random.below(6)
        const counted = running.map(({ id }) => id)
        const expected: string[] = []
        for (const id of line) {
          const key = keyOf.get(id)!
          const ofKey = [...counted, ...expected].filter((other) => keyOf.get(other) === key).length
          const isFull = key !== '' && ofKey >= (limits.perKey?.concurrency ?? 60)
          const isOver = counted.length + expected.length >= (limits.concurrency ?? 60)
          if (!isFull && !isOver && expected.length < limit) expected.push(id)
        }
        const claimed = await claim(backend, { limit })
        assert.deepEqual(ids(claimed), expected)
        for (const id of expected) line.splice(line.indexOf(id), 1)
        running.push(...claimed)
        for (const job of random.some(running, 0.4)) {
          await settleOne(backend, job)
          running.splice(running.indexOf(job), 1)
        }
      }
    }
  })

  test('keys are compared byte by byte', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', perKey(1))
    const names = ['k', 'K', 'k ', 'é', 'e', 'e\u0301', '😀', 'ﾠ', '\ue000', 'ß', 'ss', 'k'.repeat(64)]
    const all = await addInOrder(
      backend,
      [...names, ...names].map((name) => aJobOf(name)),
    )
    assert.deepEqual(ids(await claim(backend, { limit: 100 })), all.slice(0, names.length))
    assert.deepEqual(await claim(backend), [])
  })

  test('meta that is not the limit key has no effect on the limits', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', perKey(1))
    const metas = ['{"limitKey":""}', '{"limitKey":5}', '{"limitKey":null}', '{"tags":["limitKey"]}', '[]']
    const all = await addInOrder(
      backend,
      [...metas, ...metas].map((meta) => aJob({ meta })),
    )
    assert.deepEqual(ids(await claim(backend, { limit: 100 })), all)
  })

  test('an expired lease frees the slot of its key', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', perKey(1))
    const [first, second] = await addInOrder(backend, [aJobOf('a', { maxAttempts: 1 }), aJobOf('a')])
    const lost = await claim(backend, { leaseMs: shortMs })
    assert.deepEqual(ids(lost), [first])
    await lapse(backend, ...lost)
    assert.deepEqual(ids(await claim(backend)), [second])
  })

  test('a limit by key that is set while jobs run counts those jobs by key', async () => {
    await using backend = await open()
    const all = await addInOrder(backend, [aJobOf('a'), aJobOf('b'), aJobOf('a'), aJobOf('b'), aJob()])
    const running = await claim(backend, { limit: 1 })
    await backend.jobs.setLimits('mail', perKey(1))
    assert.deepEqual(ids(await claim(backend)), [all[1], all[4]])
    await settleEach(backend, running)
    assert.deepEqual(ids(await claim(backend)), [all[2]])
  })

  test('a job keeps its key when it is retried', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', perKey(1))
    const [first, second] = await addInOrder(backend, [aJobOf('a'), aJobOf('a')])
    const [running] = await claim(backend)
    await settleOne(backend, running!, { state: 'dead' })
    assert.deepEqual(ids(await claim(backend)), [second])
    await backend.jobs.retry(first!)
    assert.deepEqual(await claim(backend), [])
  })

  test('keys have no effect in a queue without limits', async () => {
    await using backend = await open()
    const all = await addInOrder(backend, [aJobOf('a'), aJob(), aJobOf('a'), aJobOf('b'), aJob()])
    assert.deepEqual(ids(await claim(backend, { kinds: ['welcome'], limit: 2 })), all.slice(0, 2))
    assert.deepEqual(ids(await claim(backend)), all.slice(2))
  })

  test('keys have no effect when only the queue has a limit', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 3 }))
    const all = await addInOrder(backend, [aJobOf('a'), aJob(), aJobOf('a'), aJobOf('a')])
    assert.deepEqual(ids(await claim(backend)), all.slice(0, 3))
  })

  test('every key gets its turn, however many keys have jobs', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', perKey(1))
    const keys = Array.from({ length: 1_100 }, (_, at) => `key ${String(at).padStart(4, '0')}`)
    const first = await addInOrder(
      backend,
      keys.map((key) => aJobOf(key)),
    )
    await addInOrder(
      backend,
      keys.map((key) => aJobOf(key, { priority: -1 })),
    )
    const claimed = new Set<string>()
    for (let turn = 0; turn < 6; turn++) {
      for (const { id } of await claim(backend, { limit: 400 })) {
        assert.equal(claimed.has(id), false)
        claimed.add(id)
      }
    }
    assert.deepEqual([...claimed].sort(), first.toSorted())

    // All those keys are full now. The claim finds a key with a free slot behind them, whatever its name.
    const late = [aJobOf('a key'), aJobOf('key 0500 and more'), aJobOf('zebra')]
    await backend.jobs.add(late)
    const found: string[] = []
    for (let turn = 0; turn < 4; turn++) found.push(...ids(await claim(backend)))
    assert.deepEqual(found.sort(), ids(late).sort())
  })

  test('jobs of kinds that a claim does not ask for block no other job', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', perKey(1))
    await addInOrder(backend, [
      aJobOf('a', { kind: 'x', priority: 1 }),
      aJobOf('b', { kind: 'x' }),
      aJob({ kind: 'x' }),
    ])
    const [wanted, plain] = await addMany(backend, 2, { kind: 'y' })
    const keyed = aJobOf('a', { kind: 'y', priority: -1 })
    await backend.jobs.add([keyed])
    assert.deepEqual(ids(await claim(backend, { kinds: ['y'] })), [wanted, plain, keyed.id])
    assert.equal((await claim(backend, { kinds: ['x', 'y'] })).length, 2)
  })
}

/** Two jobs of one call become due at the same moment or a little apart, as the store decides. */
function byAge(claimed: readonly { readonly id: string; readonly runAt: number }[]) {
  const runAt = (id: string) => claimed.find((job) => job.id === id)?.runAt ?? 0
  return (a: string, b: string) => runAt(a) - runAt(b) || (a < b ? -1 : 1)
}
