import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import type { Candidate } from '../candidates.ts'
import {
  addOne,
  aJob,
  claim,
  claimOne,
  endedJob,
  find,
  ids,
  lapsedJob,
  runningJob,
  settleOne,
} from './making.ts'

/** A job is stored as it was added. A unique key belongs to one live job of its queue. */
export function addingContract({ open, sql }: Candidate): void {
  test('a job is found with all fields as it was added', async () => {
    await using backend = await open()
    const before = await storeNow(backend)
    const job = aJob({
      queue: 'invoices',
      kind: 'send',
      priority: 7,
      uniqueKey: 'invoice 1',
      maxAttempts: 3,
      backoff: '{"baseMs":10,"factor":2,"maxMs":1000,"jitter":0}',
      timeoutMs: 90_000_000_000,
    })
    assert.deepEqual(await backend.jobs.add([job]), [{ id: job.id, duplicate: false }])

    const { createdAt, runAt, ...found } = await find(backend, job.id)
    const { due: _, ...given } = job
    assert.deepEqual(found, {
      ...given,
      state: 'ready',
      attempt: 0,
      handBackCount: 0,
      snoozeCount: 0,
      startedAt: null,
      finishedAt: null,
      workerId: null,
      leaseEndsAt: null,
      result: null,
      error: null,
      cancelRequested: false,
      cancelIgnored: false,
    })
    assert.ok(Number.isSafeInteger(createdAt) && createdAt >= before)
    assert.ok(Number.isSafeInteger(runAt) && runAt >= before && runAt <= (await storeNow(backend)))
  })

  test('adding an empty list returns an empty list', async () => {
    await using backend = await open()
    assert.deepEqual(await backend.jobs.add([]), [])
  })

  test('the answers for many jobs come in the order of the jobs', async () => {
    await using backend = await open()
    const jobs = Array.from({ length: 500 }, (_, i) => aJob({ uniqueKey: i % 5 === 0 ? `${i}` : null }))
    // Not in the order of their ids, so that an answer in key order would show.
    jobs.reverse()
    assert.deepEqual(
      await backend.jobs.add(jobs),
      jobs.map(({ id }) => ({ id, duplicate: false })),
    )
    assert.equal((await backend.jobs.list({ limit: 1_000 })).length, 500)
  })

  test('a job with a run time runs at that time, one with a delay after that delay', async () => {
    await using backend = await open()
    const past = await addOne(backend, { due: { runAt: 1_000 } })
    const future = await addOne(backend, { due: { runAt: 4_102_444_800_000 } })
    const before = await storeNow(backend)
    const delayed = await addOne(backend, { due: { delayMs: 3_600_000 } })
    const after = await storeNow(backend)

    assert.deepEqual(pick(await find(backend, past)), { state: 'ready', runAt: 1_000 })
    assert.deepEqual(pick(await find(backend, future)), { state: 'scheduled', runAt: 4_102_444_800_000 })
    const { state, runAt } = await find(backend, delayed)
    assert.equal(state, 'scheduled')
    assert.ok(runAt >= before + 3_600_000 && runAt <= after + 3_600_000)
  })

  const texts: Record<string, string> = {
    'line separators': JSON.stringify('a\u2028b\u2029c'),
    'emoji and astral characters': JSON.stringify({ '👩‍🚀': '𝒳𐍈🏳️‍🌈', 中: '文' }),
    'an escaped NUL and escaped surrogates': '{"a":"\\u0000","b":"\\ud83d\\ude00","c":"\\\\u0000"}',
    'spaces, order and repeated keys':
      '{ "b" : 1,\t"a": 1.0e+2, "b":2,\n"c": -0 , "d": 12345678901234567890}',
    'quotes, backslashes and placeholders': `{"a":"'\\"\\\\' $1 ? :x %s -- ;"}`,
    'a bare null': 'null',
    'the empty string': '""',
    '256 KiB': JSON.stringify('é'.repeat(131_071)),
  }
  for (const [what, payload] of Object.entries(texts)) {
    test(`a payload with ${what} is stored byte for byte`, async () => {
      await using backend = await open()
      const id = await addOne(backend, { payload, backoff: payload.length < 200 ? payload : null })
      assert.equal((await find(backend, id)).payload, payload)
      const claimed = await claimOne(backend)
      assert.equal(claimed.payload, payload)
      await settleOne(backend, claimed, { result: payload, error: payload })
      const { payload: kept, result, error } = await find(backend, id)
      assert.deepEqual([kept, result, error], [payload, payload, payload])
      const [listed] = await backend.jobs.list({ limit: 1 })
      assert.equal(listed?.payload, payload)
    })
  }

  test('names of 191 four-byte characters are stored, and stay separate if only the last differs', async () => {
    await using backend = await open()
    const name = (last: string) => '🚂'.repeat(190) + last
    const job = { queue: name('🚃'), kind: name('🚄'), uniqueKey: name('🚅') }
    const first = await addOne(backend, job)
    const { queue, kind, uniqueKey } = await find(backend, first)
    assert.deepEqual({ queue, kind, uniqueKey }, job)

    const second = await addOne(backend, { ...job, uniqueKey: name('🚆') })
    assert.deepEqual(await backend.jobs.add([aJob(job)]), [{ id: first, duplicate: true }])
    const [elsewhere] = await backend.jobs.add([aJob({ ...job, queue: name('🚇') })])
    assert.equal(elsewhere?.duplicate, false)

    const request = { queues: [job.queue], kinds: [job.kind], workerId: name('🚈') }
    const claimed = await claim(backend, request)
    assert.deepEqual(ids(claimed).sort(), [first, second].sort())
    assert.equal(claimed[0]?.workerId, request.workerId)
  })

  describe('unique keys', () => {
    test('a job whose unique key is live is not written, and the answer is the existing job', async () => {
      await using backend = await open()
      const first = await addOne(backend, { uniqueKey: 'a', payload: '1' })
      assert.deepEqual(await backend.jobs.add([aJob({ uniqueKey: 'a', payload: '2' })]), [
        { id: first, duplicate: true },
      ])
      const listed = await backend.jobs.list({ limit: 10 })
      assert.deepEqual(
        listed.map(({ id, payload }) => ({ id, payload })),
        [{ id: first, payload: '1' }],
      )
    })

    test('keys are compared byte by byte', async () => {
      await using backend = await open()
      const keys = [
        'Key',
        'key',
        'Key ',
        'KEY',
        ' Key',
        'kéy',
        'ke\u0301y',
        'ß',
        'ss',
        '😀',
        '😁',
        '\u00a0',
        ' ',
      ]
      const added = await backend.jobs.add(keys.map((uniqueKey) => aJob({ uniqueKey })))
      assert.deepEqual(
        added.map(({ duplicate }) => duplicate),
        keys.map(() => false),
      )
      const again = await backend.jobs.add(keys.map((uniqueKey) => aJob({ uniqueKey })))
      assert.deepEqual(
        again,
        added.map(({ id }) => ({ id, duplicate: true })),
      )
    })

    test('queues and kinds are compared byte by byte', async () => {
      await using backend = await open()
      const names = ['Mail', 'mail', 'mail ', 'máil', '📧']
      for (const name of names) await addOne(backend, { queue: name, kind: name, uniqueKey: 'one' })
      for (const name of names) {
        const claimed = await claim(backend, { queues: [name], kinds: [name] })
        assert.deepEqual(
          claimed.map(({ queue, kind }) => [queue, kind]),
          [[name, name]],
        )
      }
    })

    test('the same key in another queue is a different key', async () => {
      await using backend = await open()
      await addOne(backend, { queue: 'a', uniqueKey: 'k' })
      await addOne(backend, { queue: 'b', uniqueKey: 'k' })
    })

    test('a key that is twice in one call is written once', async () => {
      await using backend = await open()
      const [a, again, b, plain, bAgain] = [
        aJob({ uniqueKey: 'a' }),
        aJob({ uniqueKey: 'a' }),
        aJob({ uniqueKey: 'b' }),
        aJob(),
        aJob({ uniqueKey: 'b' }),
      ] as const
      assert.deepEqual(await backend.jobs.add([a, again, b, plain, bAgain]), [
        { id: a.id, duplicate: false },
        { id: a.id, duplicate: true },
        { id: b.id, duplicate: false },
        { id: plain.id, duplicate: false },
        { id: b.id, duplicate: true },
      ])
      assert.deepEqual(ids(await backend.jobs.list({ limit: 10 })).sort(), [a.id, b.id, plain.id].sort())
    })

    test('of twenty adds at once with one key, one is written and all get its id', async () => {
      await using backend = await open()
      for (let round = 0; round < 3; round++) {
        const adds = Array.from({ length: 20 }, () =>
          backend.jobs.add([aJob(), aJob({ uniqueKey: `race ${round}` })]),
        )
        const answers = (await Promise.all(adds)).map(([, keyed]) => keyed!)
        const winners = answers.filter(({ duplicate }) => !duplicate)
        assert.equal(winners.length, 1)
        assert.deepEqual(new Set(ids(answers)), new Set(ids(winners)))
      }
      assert.equal((await backend.jobs.list({ limit: 100 })).length, 63)
    })

    test('twenty adds at once with the same keys in different orders all complete', async () => {
      await using backend = await open()
      const keys = Array.from({ length: 8 }, (_, i) => `k${i}`)
      const adds = Array.from({ length: 20 }, (_, turn) =>
        backend.jobs.add(keys.map((_, i) => aJob({ uniqueKey: keys[(i * 3 + turn) % 8]! }))),
      )
      const answers = (await Promise.all(adds)).flat()
      assert.equal(answers.filter(({ duplicate }) => !duplicate).length, 8)
      assert.equal(new Set(ids(answers)).size, 8)
    })

    for (const state of ['completed', 'dead', 'cancelled'] as const) {
      test(`a key is free again once its job is ${state}`, async () => {
        await using backend = await open()
        const first = await endedJob(backend, state, { uniqueKey: 'a' })
        assert.equal((await find(backend, first)).uniqueKey, 'a')
        const second = await addOne(backend, { uniqueKey: 'a' })
        assert.notEqual(second, first)
      })
    }

    test('a key is free again once its job was cancelled before it ran', async () => {
      await using backend = await open()
      await backend.jobs.cancel(await addOne(backend, { uniqueKey: 'a' }))
      await addOne(backend, { uniqueKey: 'a' })
    })

    test("a key is free again once its job's last attempt was reclaimed", async () => {
      await using backend = await open()
      await lapsedJob(backend, { uniqueKey: 'a', maxAttempts: 1 })
      assert.deepEqual(await backend.jobs.reclaim(10), { ready: 0, dead: 1, cancelled: 0 })
      await addOne(backend, { uniqueKey: 'a' })
    })

    test('a key is taken while its job is scheduled, runs, waits for a retry or was reclaimed', async () => {
      await using backend = await open()
      const id = await addOne(backend, { uniqueKey: 'scheduled', due: { delayMs: 3_600_000 } })
      const taken = async (uniqueKey: string) => (await backend.jobs.add([aJob({ uniqueKey })]))[0]
      assert.deepEqual(await taken('scheduled'), { id, duplicate: true })

      const claimed = await runningJob(backend, { uniqueKey: 'a' })
      assert.deepEqual(await taken('a'), { id: claimed.id, duplicate: true })
      assert.equal(await settleOne(backend, claimed, { state: 'scheduled', delayMs: 3_600_000 }), true)
      assert.deepEqual(await taken('a'), { id: claimed.id, duplicate: true })

      const lapsed = await lapsedJob(backend, { uniqueKey: 'b' })
      assert.deepEqual(await taken('b'), { id: lapsed.id, duplicate: true })
      await backend.jobs.reclaim(10)
      assert.deepEqual(await taken('b'), { id: lapsed.id, duplicate: true })
    })
  })

  describe.runIf(sql)("in a caller's transaction", () => {
    test('a rollback removes the jobs that its transaction added', async () => {
      await using backend = await open()
      await using caller = await sql!.connect()
      await caller.begin()
      const job = aJob({ uniqueKey: 'a' })
      assert.deepEqual(await backend.jobs.add([job], caller.tx), [{ id: job.id, duplicate: false }])
      await caller.rollback()

      assert.equal(await backend.jobs.find(job.id), undefined)
      assert.deepEqual(await claim(backend), [])
      await addOne(backend, { uniqueKey: 'a' })
    })

    test('other callers see jobs of a transaction after its commit, not before', async () => {
      await using backend = await open()
      await using caller = await sql!.connect()
      await caller.begin()
      const jobs = [aJob({ uniqueKey: 'a' }), aJob({ uniqueKey: 'a' }), aJob()] as const
      assert.deepEqual(await backend.jobs.add(jobs, caller.tx), [
        { id: jobs[0].id, duplicate: false },
        { id: jobs[0].id, duplicate: true },
        { id: jobs[2].id, duplicate: false },
      ])
      assert.equal(await backend.jobs.find(jobs[0].id), undefined)
      if (sql!.rowLocks) assert.deepEqual(await claim(backend), [])
      await caller.commit()
      assert.deepEqual(ids(await claim(backend)), [jobs[0].id, jobs[2].id])
    })

    test('an add in a transaction returns the live job that has its key', async () => {
      await using backend = await open()
      const id = await addOne(backend, { uniqueKey: 'a' })
      await using caller = await sql!.connect()
      await caller.begin()
      assert.deepEqual(await backend.jobs.add([aJob({ uniqueKey: 'a' })], caller.tx), [
        { id, duplicate: true },
      ])
      await caller.commit()
      assert.equal((await backend.jobs.list({ limit: 10 })).length, 1)
    })
  })

  test.runIf(!sql)('an engine without transactions refuses an add in a transaction', async () => {
    await using backend = await open()
    assert.equal(backend.traits.transactions, false)
    await assert.rejects(backend.jobs.add([aJob()], {}), { code: 'transaction_unsupported' })
    assert.deepEqual(await backend.jobs.list({ limit: 1 }), [])
  })
}

function pick({ state, runAt }: { state: string; runAt: number }) {
  return { state, runAt }
}

/** The store's clock, as its writes show it. */
async function storeNow(backend: Parameters<typeof find>[0]): Promise<number> {
  const id = await addOne(backend, { queue: 'clock' })
  const { createdAt } = await find(backend, id)
  await backend.jobs.cancel(id)
  return createdAt
}
