import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { CountedAttempt, UncountedAttempt } from '../../../src/jobs/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import type { Candidate } from '../candidates.ts'
import { addOne, claimOne, lapsedJob, settleOne, until } from '../jobs/making.ts'

/** Attempts are counted in groups, each once, however many processes count them. */
export function countingContract({ open, isShared }: Candidate): void {
  test('an error group has its count, its first and last time, and its jobs', async () => {
    await using backend = await open()
    const ids = [await fail(backend, 'boom'), await fail(backend, 'boom'), await fail(backend, 'other')]
    const attempts = await backend.attempts.uncounted(10)
    assert.deepEqual(
      attempts.map(({ jobId }) => jobId),
      ids.toSorted(),
    )
    assert.equal((await backend.attempts.count(attempts.map(byMessage))).length, 3)
    assert.deepEqual(await backend.attempts.uncounted(10), [])

    const boom = await backend.attempts.group('boom')
    const [first, second] = attempts.filter((attempt) => attempt.error.includes('boom')) as [
      UncountedAttempt,
      UncountedAttempt,
    ]
    assert.deepEqual(boom, {
      ...{ fingerprint: 'boom', kind: 'welcome', attemptCount: 2, releases: [], error: second.error },
      ...{ firstSeenAt: first.endedAt, lastSeenAt: second.endedAt, sampleJobs: ids.slice(0, 2) },
    })
    assert.equal(await backend.attempts.group('unknown'), undefined)
  })

  test('later counts add to an existing error group', async () => {
    await using backend = await open()
    const jobs: string[] = []
    for (let round = 0; round < 12; round++) {
      jobs.push(await fail(backend, 'boom'))
      await countAll(backend)
    }
    const group = (await backend.attempts.group('boom'))!
    assert.equal(group.attemptCount, 12)
    assert.deepEqual(group.sampleJobs, jobs.slice(-10))
    assert.ok(group.firstSeenAt <= group.lastSeenAt)
  })

  test('an attempt shows that its job died of a lost lease, which no worker reported', async () => {
    await using backend = await open()
    const seen = await fail(backend, 'boom')
    const { id: again } = await lapsedJob(backend, { queue: 'again', maxAttempts: 2 })
    const { id: unseen } = await lapsedJob(backend, { queue: 'once', maxAttempts: 1 })
    await backend.jobs.reclaim(10)
    const attempts = await backend.attempts.uncounted(10)
    assert.deepEqual(
      new Map(attempts.map(({ jobId, isUnseenEnd }) => [jobId, isUnseenEnd])),
      new Map([seen, again, unseen].map((id) => [id, id === unseen])),
    )
    const counted = await backend.attempts.count(attempts.map((one) => ({ ...one, fingerprint: 'any' })))
    assert.deepEqual(
      counted.filter(({ isUnseenEnd }) => isUnseenEnd).map(({ jobId }) => jobId),
      [unseen],
    )
    assert.deepEqual(await backend.attempts.count(counted), [], 'an attempt was counted twice')
  })

  test('counters that run at once count each attempt once', async () => {
    await using backend = await open()
    for (let n = 0; n < 20; n++) await fail(backend, n % 2 === 0 ? 'boom' : 'other')
    const attempts = (await backend.attempts.uncounted(100)).map(byMessage)
    const counts = await Promise.all([1, 2, 3, 4].map(() => backend.attempts.count(attempts)))
    // One counter may leave locked attempts to another, which may fail: so the test counts again.
    await until('all are counted', async () => (await countAll(backend)) === 0)
    assert.ok(counts.reduce((sum, { length }) => sum + length, 0) <= 20)
    const groups = await backend.attempts.groups({ limit: 10 })
    assert.deepEqual(
      groups.map(({ attemptCount }) => attemptCount),
      [10, 10],
    )
  })

  test('an attempt without a group is counted in no group', async () => {
    await using backend = await open()
    await fail(backend, 'boom')
    const [attempt] = await backend.attempts.uncounted(1)
    assert.equal((await backend.attempts.count([{ ...attempt!, fingerprint: '' }])).length, 1)
    assert.deepEqual(await backend.attempts.uncounted(1), [])
    assert.deepEqual(await backend.attempts.groups({ limit: 10 }), [])
  })

  test('the store keeps the last 50 failed attempts of a job', async () => {
    await using backend = await open()
    const id = await addOne(backend, { maxAttempts: 100 })
    for (let n = 1; n <= 55; n++) {
      const claimed = await claimOne(backend)
      await settleOne(backend, claimed, { state: 'scheduled', error: `{"message":"${n}"}` })
    }
    assert.equal((await backend.attempts.list(id)).length, 50)
    await countAll(backend)
    const attempts = await backend.attempts.list(id)
    assert.deepEqual(
      attempts.map(({ attempt }) => attempt),
      Array.from({ length: 50 }, (_, n) => n + 6),
    )
  }, 30_000)

  test('groups are listed by their latest error, in pages and by kind', async () => {
    await using backend = await open()
    for (const [n, kind] of ['a', 'b', 'a', 'b', 'a'].entries()) {
      await fail(backend, `error ${n}`, kind)
      await countAll(backend)
    }
    const all = await backend.attempts.groups({ limit: 10 })
    assert.deepEqual(
      all.map(({ lastSeenAt }) => lastSeenAt),
      all.map(({ lastSeenAt }) => lastSeenAt).toSorted((a, b) => b - a),
    )
    const paged: string[] = []
    for (let before: (typeof all)[number] | undefined; ; ) {
      const page = await backend.attempts.groups({ limit: 2, ...(before && { before }) })
      paged.push(...page.map(({ fingerprint }) => fingerprint))
      if (page.length < 2) break
      before = page.at(-1)
    }
    assert.deepEqual(
      paged,
      all.map(({ fingerprint }) => fingerprint),
    )
    const ofA = await backend.attempts.groups({ limit: 10, kind: 'a' })
    assert.deepEqual(ofA.map(({ fingerprint }) => fingerprint).toSorted(), ['error 0', 'error 2', 'error 4'])
  })

  test('groups without a recent error are deleted', async () => {
    await using backend = await open()
    for (const message of ['x', 'y', 'z']) await fail(backend, message)
    await countAll(backend)
    assert.equal(await backend.attempts.prune({ olderThanMs: 600_000, limit: 10 }), 0)
    let pruned = 0
    await until('they are deleted', async () => {
      pruned += await backend.attempts.prune({ olderThanMs: 0, limit: 2 })
      return pruned === 3
    })
    assert.deepEqual(await backend.attempts.groups({ limit: 10 }), [])
  })

  test.skipIf(!isShared)('removing a job does not lower the counts', async () => {
    await using backend = await open()
    const id = await fail(backend, 'boom')
    await countAll(backend)
    await backend.jobs.remove([id])
    assert.equal((await backend.attempts.group('boom'))?.attemptCount, 1)
  })
}

async function fail(backend: Backend, message: string, kind = 'welcome'): Promise<string> {
  const id = await addOne(backend, { kind })
  const claimed = await claimOne(backend, { kinds: [kind] })
  await settleOne(backend, claimed, { state: 'dead', error: JSON.stringify({ message }) })
  return id
}

function byMessage(attempt: UncountedAttempt): CountedAttempt {
  return { ...attempt, fingerprint: (JSON.parse(attempt.error) as { message: string }).message }
}

async function countAll({ attempts }: Backend): Promise<number> {
  return (await attempts.count((await attempts.uncounted(100)).map(byMessage))).length
}
