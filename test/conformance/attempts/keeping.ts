import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { AttemptRecord, ClaimedRecord, Verdict } from '../../../src/jobs/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import type { Candidate } from '../candidates.ts'
import {
  addOne,
  claimOne,
  find,
  lapse,
  lapsedJob,
  leaseNo,
  longMs,
  runningJob,
  settleOne,
  shortMs,
  until,
  verdictOf,
} from '../jobs/making.ts'
import { aWorker } from '../workers/contract.ts'

const boom = '{"name":"Error","message":"boom"}'
const fails: Partial<Verdict> = { state: 'scheduled', error: boom }

/** An attempt that fails or is lost leaves a row, in the transaction of its verdict. */
export function keepingContract({ open, sql }: Candidate): void {
  test('each failed attempt leaves a row, including the one after which the job is dead', async () => {
    await using backend = await open()
    const first = await runningJob(backend, { maxAttempts: 2 }, { workerId: 'w1' })
    assert.equal(await settleOne(backend, first, { ...fails, ranMs: 20 }), true)
    const second = await claimOne(backend, { workerId: 'w2' })
    assert.equal(await settleOne(backend, second, { state: 'dead', error: '{"message":"again"}' }), true)

    const attempts = await backend.attempts.list(first.id)
    assert.deepEqual(
      attempts.map(({ number, attempt, outcome, workerId, error }) => [
        number,
        attempt,
        outcome,
        workerId,
        error,
      ]),
      [
        [numberOf(first), 1, 'failed', 'w1', boom],
        [numberOf(second), 2, 'dead', 'w2', '{"message":"again"}'],
      ],
    )
    const [early, late] = attempts as [AttemptRecord, AttemptRecord]
    assert.equal(early.endedAt - early.startedAt!, 20)
    assert.ok(late.endedAt >= early.endedAt)
    const job = await find(backend, first.id)
    assert.equal(late.startedAt, job.startedAt)
    assert.ok(late.endedAt <= job.finishedAt!)
    assert.deepEqual([early.queue, early.kind, early.jobId], ['mail', 'welcome', first.id])
  })

  test('attempts that do not fail leave no row', async () => {
    await using backend = await open()
    const ends: Partial<Verdict>[] = [
      { state: 'completed', result: '1' },
      { state: 'ready', attempt: 0, handBackCount: 1 },
      { state: 'scheduled', attempt: 0, snoozeCount: 1, delayMs: 60_000 },
      { state: 'cancelled', error: boom },
    ]
    for (const end of ends) {
      const claimed = await runningJob(backend, { queue: `q-${end.state}` })
      assert.equal(await settleOne(backend, claimed, end), true)
      assert.deepEqual(await backend.attempts.list(claimed.id), [])
    }
    assert.deepEqual(await backend.attempts.uncounted(10), [])
  })

  test('an attempt that fails after a cancellation request leaves its row', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    await backend.jobs.cancel(claimed.id)
    assert.equal(await settleOne(backend, claimed, fails), true)
    assert.equal((await find(backend, claimed.id)).state, 'cancelled')
    assert.deepEqual(outcomesOf(await backend.attempts.list(claimed.id)), ['failed'])
  })

  test('a refused verdict leaves no row', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend, {}, { leaseMs: shortMs })
    await lapse(backend, claimed)
    assert.equal(await settleOne(backend, claimed, fails), false)
    await backend.jobs.reclaim(10)
    assert.equal(await settleOne(backend, claimed, fails), false)
    assert.deepEqual(outcomesOf(await backend.attempts.list(claimed.id)), ['lost'])
  })

  test('of several verdicts in one call, only the failed ones leave rows', async () => {
    await using backend = await open()
    const claims: ClaimedRecord[] = []
    for (let n = 0; n < 5; n++) claims.push(await runningJob(backend, { queue: `q${n}` }))
    const verdicts = claims.map((claimed, n) =>
      verdictOf(
        claimed,
        [{ state: 'completed' }, fails, { state: 'dead', error: boom }, { state: 'ready' }, fails][
          n
        ] as Verdict,
      ),
    )
    assert.deepEqual(await backend.jobs.settle([...verdicts, verdicts[1]!]), [
      ...verdicts.map(() => true),
      false,
    ])
    const outcomes = await Promise.all(
      claims.map(async ({ id }) => outcomesOf(await backend.attempts.list(id))),
    )
    assert.deepEqual(outcomes, [[], ['failed'], ['dead'], [], ['failed']])
  })

  test('each expired lease leaves a row that says so, also for the last attempt', async () => {
    await using backend = await open()
    const first = await lapsedJob(backend, { maxAttempts: 2 })
    await backend.jobs.reclaim(10)
    const second = await claimOne(backend, { leaseMs: shortMs })
    await lapse(backend, second)
    // A claim reclaims, too.
    assert.deepEqual(
      await backend.jobs.claim({ queues: ['mail'], kinds: null, workerId: 'w', limit: 1, leaseMs: 50 }),
      [],
    )
    const attempts = await backend.attempts.list(first.id)
    assert.deepEqual(outcomesOf(attempts), ['lost', 'lost'])
    assert.deepEqual(
      attempts.map(({ attempt, number, workerId }) => [attempt, number, workerId]),
      [
        [1, numberOf(first), 'w1'],
        [2, numberOf(second), 'w1'],
      ],
    )
    assert.equal(attempts[0]!.endedAt, first.leaseEndsAt)
    assert.equal(JSON.parse(attempts[0]!.error).code, 'lease_expired')
    assert.equal((await find(backend, first.id)).state, 'dead')
  })

  test('a retry keeps the earlier attempts, and later attempts have higher numbers', async () => {
    await using backend = await open()
    const first = await runningJob(backend, { maxAttempts: 1 })
    await settleOne(backend, first, { state: 'dead', error: boom })
    assert.deepEqual(await backend.jobs.retry(first.id), { outcome: 'ready' })
    const second = await claimOne(backend)
    await settleOne(backend, second, { state: 'dead', error: boom })
    const attempts = await backend.attempts.list(first.id)
    assert.deepEqual(
      attempts.map(({ attempt, number }) => [attempt, number]),
      [
        [1, numberOf(first)],
        [1, numberOf(second)],
      ],
    )
    assert.ok(numberOf(second) > numberOf(first))
  })

  test('removing or pruning a job removes its attempts', async () => {
    await using backend = await open()
    const [removed, pruned, kept] = [
      await failedJob(backend),
      await failedJob(backend),
      await failedJob(backend),
    ]
    const [other] = [await runningJob(backend)]
    await settleOne(backend, other, { state: 'scheduled', delayMs: 60_000, error: boom })
    await backend.jobs.remove([removed])
    assert.deepEqual(await backend.attempts.list(removed), [])
    assert.equal((await backend.attempts.list(pruned)).length, 1)
    await backend.jobs.retry(kept)
    await until('it is pruned', async () => {
      await backend.jobs.prune({ olderThanMs: 0, limit: 10 })
      return (await backend.jobs.find(pruned)) === undefined
    })
    assert.deepEqual(await backend.attempts.list(pruned), [])
    assert.equal((await backend.attempts.list(kept)).length, 1)
    assert.equal((await backend.attempts.list(other.id)).length, 1)
  })

  test('a large error loses its details and part of its stack, never its message', async () => {
    await using backend = await open()
    const message = 'm'.repeat(4_000)
    const large = { name: 'Error', message, stack: 's'.repeat(8_000), details: { all: 'd'.repeat(15_000) } }
    const claimed = await runningJob(backend)
    await settleOne(backend, claimed, { state: 'dead', error: JSON.stringify(large) })
    const [attempt] = await backend.attempts.list(claimed.id)
    const kept = JSON.parse(attempt!.error) as typeof large
    assert.deepEqual([kept.message, kept.details], [message, undefined])
    assert.ok(kept.stack.startsWith('sss') && attempt!.error.length < 8_000)
    assert.equal((await find(backend, claimed.id)).error, JSON.stringify(large))
  })

  test.skipIf(!sql)(
    "in a caller's transaction the row of the attempt commits together with the verdict",
    async () => {
      await using backend = await open()
      await using caller = await sql!.connect()
      for (const end of [fails, { state: 'dead', error: boom }] as Partial<Verdict>[]) {
        const claimed = await runningJob(backend, { queue: `q-${end.state}` })
        await caller.begin()
        assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(claimed, end)), true)
        await caller.rollback()
        assert.deepEqual(await backend.attempts.list(claimed.id), [])
        await caller.begin()
        assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(claimed, end)), true)
        await caller.commit()
        assert.deepEqual(outcomesOf(await backend.attempts.list(claimed.id)), [
          end.state === 'dead' ? 'dead' : 'failed',
        ])
      }
    },
  )

  test('an attempt has the release of the worker that ran when the attempt began', async () => {
    await using backend = await open()
    await backend.workers.join([aWorker({ id: 'w1', workerId: 'w1', release: '2026-11-18 "b"' })], longMs)
    const release = async ({ id }: ClaimedRecord) => (await backend.attempts.list(id)).at(-1)?.release
    const failed = await runningJob(backend, { queue: 'q1' })
    await settleOne(backend, failed, fails)
    const dead = await runningJob(backend, { queue: 'q2' })
    await settleOne(backend, dead, { state: 'dead', error: boom })
    const lost = await lapsedJob(backend, { queue: 'q3' })
    await backend.jobs.reclaim(10)
    const all = [failed, dead, lost]
    if (sql) {
      const nacked = await runningJob(backend, { queue: 'q5' })
      await using caller = await sql.connect()
      await caller.begin()
      await backend.jobs.settleIn(caller.tx, verdictOf(nacked, fails))
      await caller.commit()
      all.push(nacked)
    }
    for (const one of all) assert.equal(await release(one), '2026-11-18 "b"')

    const unknown = await runningJob(backend, { queue: 'q6' }, { workerId: 'w2' })
    await until('the clock moves on', async () => (await backend.time()) > unknown.startedAt!)
    // The next worker has the same id, and another release.
    await backend.workers.join([aWorker({ id: 'w2', workerId: 'w2' })], longMs)
    await settleOne(backend, unknown, fails)
    assert.equal(await release(unknown), null)
  })

  test('attempts are visible in their own namespace only', async () => {
    await using backend = await open()
    const id = await failedJob(backend)
    const other = backend.within(`${id}-other`)
    assert.deepEqual(await other.attempts.list(id), [])
    assert.deepEqual(await other.attempts.uncounted(10), [])
  })

  async function failedJob(backend: Backend): Promise<string> {
    const id = await addOne(backend, { queue: 'failing' })
    const claimed = await claimOne(backend, { queues: ['failing'] })
    await settleOne(backend, claimed, { state: 'dead', error: boom })
    return id
  }
}

/** The same in transactions of the store, where an engine has them. */
export function keepingInTransactions({ open }: Candidate): void {
  test('a transaction of the store that fails its job stores the failed attempt with it', async () => {
    await using backend = await open()
    const one = await runningJob(backend, { queue: 'one' })
    await backend.jobs.transact(async () => verdictOf(one, { state: 'dead', error: boom }), {
      timeoutMs: 5_000,
    })
    const two = await runningJob(backend, { queue: 'two' })
    const three = await runningJob(backend, { queue: 'three' })
    const ends = await backend.jobs.transactAll(
      [async () => verdictOf(two, fails), async () => verdictOf(three)],
      { timeoutMs: 5_000 },
    )
    assert.deepEqual(ends, [undefined, undefined])
    const outcomes = await Promise.all(
      [one, two, three].map(async ({ id }) => outcomesOf(await backend.attempts.list(id))),
    )
    assert.deepEqual(outcomes, [['dead'], ['failed'], []])
  })

  test('a failed attempt has the release of its worker', async () => {
    await using backend = await open()
    await backend.workers.join([aWorker({ id: 'w1', workerId: 'w1', release: 'r1' })], longMs)
    const claimed = await runningJob(backend)
    await backend.jobs.transact(async () => verdictOf(claimed, fails), { timeoutMs: 5_000 })
    assert.equal((await backend.attempts.list(claimed.id))[0]?.release, 'r1')
  })
}

function numberOf({ token }: ClaimedRecord): number {
  return Number(leaseNo(token))
}

function outcomesOf(attempts: readonly AttemptRecord[]): readonly string[] {
  return attempts.map(({ outcome }) => outcome)
}
