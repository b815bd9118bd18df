import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createId, createIds } from '../../src/core/ids.ts'
import type { Box } from '../../src/index.ts'
import { type BulkRun, runBulk } from '../../src/jobs/bulk/bulk-worker.ts'
import type { BulkOperation } from '../../src/jobs/index.ts'
import { countMatches, type MatchCount } from '../../src/jobs/search/scan-jobs.ts'
import { ended, engines, openGround } from './searching.ts'

const counts = ({ state, matched, done, skipped }: BulkOperation) => ({ state, matched, done, skipped })

for (const engine of engines) {
  test(`${engine}: a bulk operation retries, cancels or deletes all selected jobs and no others`, async () => {
    await using ground = await openGround(engine)
    const { jobs } = ground.box
    const added = await jobs.addMany(
      Array.from({ length: 130 }, (_, n) => ({
        kind: n < 120 ? 'mail' : 'sms',
        payload: n,
        delayMs: n < 120 ? 0 : '1h',
      })),
    )
    for (const job of await jobs.claim({ kinds: ['mail'], limit: 100 }))
      await jobs.nack(job, { dead: true, error: 'relay' })

    const retry = await jobs.bulk({ action: 'retry', search: 'state:dead error:relay', limit: 70 })
    assert.deepEqual([retry.state, retry.action, retry.finishedAt], ['running', 'retry', null])
    assert.deepEqual(counts(await ended(jobs, retry.id)), {
      state: 'completed',
      matched: 70,
      done: 70,
      skipped: 0,
    })
    const [line] = await jobs.stats()
    assert.deepEqual([line?.dead, line?.ready, line?.scheduled], [30, 90, 10])

    const dry = await jobs.bulk({ action: 'cancel', search: 'kind:sms', dryRun: true })
    assert.deepEqual([dry.matched, dry.scanned, dry.stopped, dry.cursor], [10, 10, null, null])
    const { states } = await jobs.bulk({ action: 'retry', search: 'id:*', dryRun: true })
    const none = { waiting: 0, running: 0, completed: 0, cancelled: 0 }
    assert.deepEqual(states, { ...none, dead: 30, ready: 90, scheduled: 10 })
    const [running] = await jobs.claim({ kinds: ['mail'] })
    const cancel = await jobs.bulk({ action: 'cancel', search: '-state:ready' })
    // Thirty are dead already; the one that runs is asked.
    assert.deepEqual(counts(await ended(jobs, cancel.id)), {
      state: 'completed',
      matched: 41,
      done: 11,
      skipped: 30,
    })
    assert.equal((await jobs.find(running!.id))?.cancelRequested, true)

    const remove = await jobs.bulk({ action: 'delete', search: 'id:*' })
    const end = await ended(jobs, remove.id)
    assert.deepEqual(counts(end), { state: 'completed', matched: 130, done: 129, skipped: 1 })
    assert.ok(end.finishedAt !== null && end.finishedAt >= end.startedAt)
    assert.deepEqual(
      (await jobs.list()).items.map(({ id }) => id),
      [running!.id],
    )
    assert.equal(added.length, 130)
    assert.deepEqual(
      (await jobs.bulkOperations()).map(({ id }) => id),
      [remove.id, cancel.id, retry.id],
    )
  })
}

for (const engine of engines)
  test(`${engine}: a bulk retry skips jobs that never ran or are ready already`, async () => {
    await using ground = await openGround(engine)
    const { jobs } = ground.box
    const [dead, failed] = await jobs.addMany([{ kind: 'dead' }, { kind: 'failed' }])
    const claimed = await jobs.claim({ limit: 2 })
    const claimOf = (id: string) => claimed.find((job) => job.id === id)!
    await jobs.nack(claimOf(dead!.id), { dead: true, error: 'relay' })
    await jobs.nack(claimOf(failed!.id), { error: 'relay', retryInMs: '1h' })
    const cancelled = await jobs.add('cancelled')
    await jobs.cancel(cancelled.id)
    const [ready, later] = await jobs.addMany([{ kind: 'ready' }, { kind: 'later', delayMs: '1h' }])
    const before = await jobs.find(ready!.id)

    const { id } = await jobs.bulk({ action: 'retry', search: 'queue:default' })
    const end = { state: 'completed', matched: 5, done: 3, skipped: 2 }
    assert.deepEqual(counts(await ended(jobs, id)), end)
    const stateOf = async (id: string) => (await jobs.find(id))?.state
    for (const { id } of [dead!, failed!, cancelled]) assert.equal(await stateOf(id), 'ready')
    assert.equal(await stateOf(later!.id), 'scheduled')
    assert.deepEqual(await jobs.find(ready!.id), before)
  })

/** An operation in the hands of this test, as a worker would have it. */
async function takeOn({ backend }: Box, order: BulkRun['order']): Promise<BulkRun> {
  const [added] = await backend.jobs.add([
    {
      id: createId(),
      queue: 'signalbox.bulk',
      kind: 'bulk',
      payload: JSON.stringify(order),
      priority: 0,
      uniqueKey: null,
      due: { delayMs: 0 },
      maxAttempts: 5,
      backoff: null,
      timeoutMs: null,
      meta: null,
    },
  ])
  const request = { queues: ['signalbox.bulk'], kinds: null, workerId: 'test', limit: 1, leaseMs: 60_000 }
  const [claimed] = await backend.jobs.claim(request)
  assert.equal(claimed?.id, added?.id)
  const { id, token, attempt, createdAt: startedAt } = claimed!
  return { id, token, attempt, startedAt, order, signal: new AbortController().signal }
}

function partsOf({ backend: { jobs: store, logs, notifier } }: Box): Parameters<typeof runBulk>[0] {
  return { store, logs, notifier }
}

test('a bulk operation skips jobs that are added after it began', async () => {
  await using ground = await openGround('memory')
  const { jobs } = ground.box
  await jobs.add('mail')
  const run = await takeOn(ground.box, { action: 'delete', search: 'kind:mail', limit: null })
  const late = await jobs.add('mail')
  assert.deepEqual(await runBulk(partsOf(ground.box), run), { matched: 1, done: 1, skipped: 0 })
  assert.equal((await jobs.find(late.id))?.state, 'ready')
})

test('a bulk operation includes existing jobs of machines whose clocks are ahead or behind', async () => {
  await using ground = await openGround('sqlite')
  const { backend, jobs } = ground.box
  const shape = {
    queue: 'default',
    kind: 'mail',
    payload: 'null',
    priority: 0,
    uniqueKey: null,
    maxAttempts: 5,
  }
  const rest = { due: { delayMs: 0 }, backoff: null, timeoutMs: null, meta: null }
  const addAt = async (hours: number) => {
    const id = createIds({ now: () => Date.now() + hours * 3_600_000 })()
    await backend.jobs.add([{ id, ...shape, ...rest }])
    return id
  }
  for (const hours of [24, -24, 0]) await addAt(hours)
  // Within one millisecond the order is undefined.
  await new Promise((later) => setTimeout(later, 2))
  const run = await takeOn(ground.box, { action: 'delete', search: 'kind:mail', limit: null })
  await new Promise((later) => setTimeout(later, 2))
  const late = await Promise.all([24, -24, 0].map(addAt))
  assert.deepEqual(await runBulk(partsOf(ground.box), run), { matched: 3, done: 3, skipped: 0 })
  const left = (await jobs.list()).items.map(({ id }) => id)
  assert.deepEqual(left.toSorted(), late.toSorted())
})

test('jobs that start during a bulk cancellation are cancelled, too', async () => {
  await using ground = await openGround('memory')
  const { jobs } = ground.box
  await jobs.addMany(Array.from({ length: 3 }, (_, n) => ({ kind: 'mail', priority: n })))
  const run = await takeOn(ground.box, { action: 'cancel', search: 'kind:mail', limit: null })
  const parts = partsOf(ground.box)
  let claimed: readonly { readonly id: string; readonly token: string }[] = []
  const logs = Object.create(parts.logs, {
    add: {
      value: async (said: Parameters<typeof parts.logs.add>[0]) => {
        await parts.logs.add(said)
        if (claimed.length > 0) return
        claimed = await jobs.claim({ limit: 2 })
        await jobs.ack(claimed[1]!)
      },
    },
  }) as typeof parts.logs
  assert.deepEqual(await runBulk({ ...parts, logs }, run), { matched: 3, done: 2, skipped: 1 })
  assert.equal((await jobs.find(claimed[0]!.id))?.cancelRequested, true)
})

test('a process that lost an operation stops working on it', async () => {
  await using ground = await openGround('memory')
  const { jobs } = ground.box
  await jobs.add('mail')
  const run = await takeOn(ground.box, { action: 'delete', search: 'kind:mail', limit: null })
  await jobs.nack(run, { handBack: true })
  await assert.rejects(runBulk(partsOf(ground.box), run), { code: 'lease_lost' })
  assert.equal((await jobs.list()).items.length, 1)
})

test('a process that loses an operation within a slice logs nothing more, and stops once it notices', async () => {
  for (const hears of [false, true]) {
    await using ground = await openGround('memory')
    const { jobs } = ground.box
    const parts = partsOf(ground.box)
    await jobs.addMany(Array.from({ length: 20 }, () => ({ kind: 'mail' })))
    for (const job of await jobs.claim({ limit: 20 })) await jobs.nack(job, { dead: true })
    const run = await takeOn(ground.box, { action: 'retry', search: 'state:dead', limit: null })
    const cutting = new AbortController()
    let retried = 0
    const losing = Object.create(parts.store, {
      retry: {
        value: async (id: string) => {
          if (++retried === 5) {
            await jobs.nack(run, { handBack: true })
            if (hears) cutting.abort(new Error('it is lost'))
          }
          return parts.store.retry(id)
        },
      },
    }) as typeof parts.store
    await assert.rejects(
      runBulk({ ...parts, store: losing }, { ...run, cut: cutting.signal }),
      hears ? /it is lost/ : { code: 'lease_lost' },
    )
    const before = await jobs.bulkOperation(run.id)
    assert.equal(retried, hears ? 5 : 20)
    // As it was written before they were touched: the next process counts them.
    assert.deepEqual([before?.matched, before?.done], [20, 0])
    const [claimed] = await ground.box.backend.jobs.claim({
      ...{ queues: ['signalbox.bulk'], kinds: null, workerId: 'next', limit: 1, leaseMs: 60_000 },
    })
    const next = { ...run, token: claimed!.token, attempt: claimed!.attempt }
    assert.deepEqual(await runBulk(parts, next), { matched: 20, done: 20, skipped: 0 })
  }
})

test('the process that takes over after a crash counts finished jobs, and does nothing twice', async () => {
  await using ground = await openGround('sqlite')
  const { jobs } = ground.box
  const parts = partsOf(ground.box)
  await jobs.addMany(Array.from({ length: 60 }, () => ({ kind: 'mail' })))
  const die = async () => {
    for (const job of await jobs.claim({ limit: 100 })) await jobs.nack(job, { dead: true })
  }
  await die()
  const run = await takeOn(ground.box, { action: 'retry', search: 'kind:mail', limit: null })
  let retried = 0
  const dying = Object.create(parts.store, {
    retry: {
      value: async (id: string) => {
        if (retried === 20) throw new Error('the process died')
        retried++
        return parts.store.retry(id)
      },
    },
  }) as typeof parts.store
  await assert.rejects(runBulk({ ...parts, store: dying }, run), /died/)
  assert.equal(retried, 20)
  // Retried jobs run again and die again meanwhile: they look untouched.
  await die()
  let again = 0
  const counting = Object.create(parts.store, {
    retry: {
      value: async (id: string) => {
        again++
        return parts.store.retry(id)
      },
    },
  }) as typeof parts.store
  const result = await runBulk({ ...parts, store: counting }, { ...run, attempt: 2 })
  assert.deepEqual([result, again], [{ matched: 60, done: 60, skipped: 0 }, 40])
})

test('an operation outlasts the box that began it, and a box with a worker continues it', async () => {
  await using ground = await openGround('sqlite')
  const first = await ground.another()
  await first.jobs.addMany(Array.from({ length: 500 }, (_, n) => ({ kind: 'mail', payload: n })))
  const { id } = await first.jobs.bulk({ action: 'delete', search: 'kind:mail' })
  await first.close()
  const { jobs } = ground.box
  const worker = jobs.worker({ handlers: { sms: () => undefined } })
  await worker.start()
  // The worker would look on its own after a while.
  ground.box.backend.notifier.wake('jobs:signalbox.bulk')
  assert.deepEqual(counts(await ended(jobs, id)), { state: 'completed', matched: 500, done: 500, skipped: 0 })
  assert.deepEqual((await jobs.list()).items, [])
})

test('a cancelled operation ends where it is, and keeps the work done so far', async () => {
  await using ground = await openGround('sqlite')
  const { jobs } = ground.box
  const parts = partsOf(ground.box)
  await jobs.addMany(Array.from({ length: 200 }, (_, n) => ({ kind: 'mail', payload: n })))
  const run = await takeOn(ground.box, { action: 'delete', search: 'kind:mail', limit: null })
  const logs = Object.create(parts.logs, {
    add: {
      value: async (said: Parameters<typeof parts.logs.add>[0]) => {
        await parts.logs.add(said)
        if ((JSON.parse(said[0]!.progress!) as BulkOperation).done > 0) await jobs.cancelBulk(run.id)
      },
    },
  }) as typeof parts.logs
  await assert.rejects(runBulk({ ...parts, logs }, run), /was cancelled/)
  assert.equal((await jobs.bulkOperation(run.id))?.state, 'running')
  await jobs.nack(run)

  const end = await jobs.cancelBulk(run.id)
  const { matched: left } = await jobs.bulk({ action: 'delete', search: 'kind:mail', dryRun: true })
  assert.deepEqual([end.state, end.done, left], ['cancelled', 50, 150])
})

test('a running operation learns that it is cancelled', async () => {
  await using ground = await openGround('memory')
  const { jobs } = ground.box
  await jobs.addMany(Array.from({ length: 10_000 }, () => ({ kind: 'mail' })))
  const { id } = await jobs.bulk({ action: 'cancel', search: 'kind:mail' })
  await jobs.cancelBulk(id)
  const { state, done } = await ended(jobs, id)
  assert.equal(state, 'cancelled')
  assert.ok(done < 10_000)
})

test('an invalid operation is refused', async () => {
  await using ground = await openGround('memory')
  const { jobs } = ground.box
  const { id } = await jobs.add('mail')
  assert.equal(await jobs.bulkOperation(id), undefined)
  await assert.rejects(jobs.cancelBulk(id), { code: 'not_found' })
  assert.equal((await jobs.find(id))?.state, 'ready')
  for (const options of [
    { action: 'explode', search: 'kind:mail' },
    { action: 'retry', search: 'kind:' },
    { action: 'retry', search: ' ' },
    { action: 'delete', search: 'queue:signalbox.bulk' },
    { action: 'retry', search: 'kind:mail', limit: 0 },
    { action: 'retry', search: 'kind:mail', many: true },
    { action: 'retry' },
  ])
    await assert.rejects(jobs.bulk(options as never), { code: 'invalid_argument' }, JSON.stringify(options))
})

test('a count that stops at its limit continues at its cursor, and the parts add up', async () => {
  const total = 120_000
  const store = {
    find: async () => undefined,
    reach: async () => undefined,
    list: async ({ limit, before }: { limit: number; before?: string }) => {
      const from = before === undefined ? total : Number(before)
      const size = Math.min(limit, from)
      return Array.from({ length: size }, (_, n) => ({
        ...{ id: String(from - 1 - n).padStart(6, '0'), queue: 'mail', kind: 'mail', payload: '1' },
        ...{ state: n % 2 ? 'dead' : 'ready', createdAt: 0, result: null, error: null, meta: null },
      }))
    },
  }
  let cursor: string | null = null
  const parts: MatchCount[] = []
  do {
    const part: MatchCount = await countMatches(store as never, 'id:*', { limit: null, before: cursor })
    parts.push(part)
    cursor = part.cursor
  } while (cursor !== null)
  assert.ok(parts.length >= 3, `${parts.length} parts`)
  const sum = (of: (part: MatchCount) => number) => parts.reduce((all, part) => all + of(part), 0)
  assert.deepEqual([sum(({ matched }) => matched), sum(({ scanned }) => scanned)], [total, total])
  assert.equal(sum(({ states }) => states.dead) + sum(({ states }) => states.ready), total)
})

test('a cursor without a dry run is refused', async () => {
  await using ground = await openGround('memory')
  const options = { action: 'retry', search: 'state:dead', cursor: 'x' } as const
  await assert.rejects(ground.box.jobs.bulk(options), {
    code: 'invalid_argument',
    message: /bulk\.cursor continues a count: set dryRun to true/,
  })
})
