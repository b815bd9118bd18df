import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'vitest'
import type { NewWorker } from '../../../src/fleet/workers/index.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { aJob, claim, longMs, until } from '../jobs/making.ts'

/** A worker's row exists while its lease holds, belongs to one worker, and carries operators' requests. */
export function workersContract({ open, isShared }: Candidate): void {
  test("a worker is listed as it registered, with times from the store's clock", async () => {
    await using backend = await open()
    const worker = aWorker({
      ageMs: 60_000,
      running: [{ id: 'j1', kind: 'mail', ms: 5_000 }],
      runningCount: 1,
    })
    assert.deepEqual(await backend.workers.join([worker], longMs), [true])
    const { workers, now } = await backend.workers.list({ limit: 10 })
    const { session: _, boot: __, ageMs: ___, ...said } = worker
    const [found] = workers
    assert.deepEqual(workers, [
      {
        ...said,
        wanted: 'run',
        schemas: {},
        running: [{ id: 'j1', kind: 'mail', since: found!.seenAt - 5_000 }],
        startedAt: found!.seenAt - 60_000,
        seenAt: found!.seenAt,
        leaseEndsAt: found!.seenAt + longMs,
      },
    ])
    assert.ok(now >= found!.seenAt && Math.abs(now - (await backend.time())) < 60_000)
  })

  test('a single worker is found with its schemas, and no other worker is', async () => {
    await using backend = await open()
    const worker = aWorker({ schemas: { mail: { type: 'object', title: '火车 🚂' } } })
    await backend.workers.join([worker], longMs)
    assert.deepEqual((await backend.workers.find(worker.id))?.worker.schemas, worker.schemas)
    assert.equal(await backend.workers.find('none'), undefined)
  })

  test('worker names keep every character, and similar names stay separate', async () => {
    await using backend = await open()
    const odd = [
      `Ada's "laptop" \\ $1 ? :x %s -- ;`,
      ' spaces ',
      'spaces',
      'ke\u0301y',
      'k\u00e9y',
      '🚂'.repeat(191),
    ]
    const workers = odd.map((id) =>
      aWorker({ id, workerId: id, host: id, queues: [id], kinds: [id], release: id }),
    )
    assert.deepEqual(
      await backend.workers.join(workers, longMs),
      odd.map(() => true),
    )
    for (const id of odd) {
      const { worker } = (await backend.workers.find(id))!
      assert.deepEqual(
        [worker.workerId, worker.host, worker.queues, worker.kinds, worker.release],
        [id, id, [id], [id], id],
      )
    }
  })

  test('an unknown worker is not found', async () => {
    await using backend = await open()
    const unknown = { host: null, pid: null, kinds: null, concurrency: null, runningCount: null } as const
    const worker = aWorker({ ...unknown, release: null, version: null, via: 'http' })
    await backend.workers.join([worker], longMs)
    const found = (await backend.workers.find(worker.id))!.worker
    for (const key of [...Object.keys(unknown), 'release', 'version'] as (keyof typeof found)[])
      assert.equal(found[key], null, key)
  })

  test('a live worker keeps its name, and another worker learns that the name is taken', async () => {
    await using backend = await open()
    const first = aWorker()
    const second = aWorker({ id: first.id })
    const other = aWorker()
    assert.deepEqual(await backend.workers.join([first, second], longMs), [true, false])
    assert.deepEqual(await backend.workers.join([second, other], longMs), [false, true])
    assert.deepEqual(await backend.workers.wanted([first, second]), [
      { status: 'here', wanted: 'run', graceMs: null },
      { status: 'taken' },
    ])
    // A repeated call changes nothing.
    assert.deepEqual(await backend.workers.join([first], longMs), [true])
  })

  test('a worker name is free again after its lease expired or its worker left', async () => {
    await using backend = await open()
    const { workers } = backend
    const [gone, next] = [aWorker(), aWorker()]
    await workers.join([gone], 1)
    const after = aWorker({ id: gone.id })
    await until('the lease has ended', async () => (await workers.join([after], longMs))[0]!)
    assert.deepEqual(await workers.renew([gone], longMs), [{ status: 'taken' }])
    await workers.join([next], longMs)
    await workers.leave([{ id: next.id, session: 'another' }])
    assert.equal((await workers.list({ limit: 10 })).workers.length, 2)
    await workers.leave([next])
    assert.equal(await workers.find(next.id), undefined)
    assert.deepEqual(await workers.join([aWorker({ id: next.id })], longMs), [true])
  })

  test('a registered worker replaces a row made by claims, and claims never replace the worker', async () => {
    await using backend = await open()
    const derived = aWorker({ via: 'http' })
    const worker = aWorker({ id: derived.id, via: 'remote' })
    await backend.workers.join([derived], longMs)
    assert.deepEqual(await backend.workers.join([worker], longMs), [true])
    assert.deepEqual(await backend.workers.join([derived], longMs), [false])
    assert.equal((await backend.workers.find(worker.id))?.worker.via, 'remote')
  })

  test('a program that claims from several servers is one row, and stays quiet as the operator asked', async () => {
    await using backend = await open()
    const { workers } = backend
    const one = aWorker({ via: 'http', session: 'http', ageMs: 60_000 })
    await workers.join([one], longMs)
    await workers.want(one.id, 'quiet', null)
    const startedAt = (await workers.find(one.id))!.worker.startedAt
    const other = { ...one, queues: ['mail', 'post'], ageMs: 0 }
    assert.deepEqual(await workers.join([other], longMs), [true])
    const { worker } = (await workers.find(one.id))!
    assert.deepEqual([worker.wanted, worker.startedAt, worker.queues], ['quiet', startedAt, ['mail', 'post']])
    // The worker itself starts again.
    await workers.join([aWorker({ id: one.id })], longMs)
    assert.equal((await workers.find(one.id))?.worker.wanted, 'run')
  })

  test('a process that restarts in the same place takes over its worker name at once', async () => {
    await using backend = await open()
    const before = aWorker({ host: 'mail-0', pid: 1, boot: 'one' })
    await backend.workers.join([before], longMs)
    await backend.workers.want(before.id, 'quiet', null)
    const elsewhere = aWorker({ id: before.id, host: 'mail-1', pid: 1, boot: 'two' })
    const sameProcess = aWorker({ id: before.id, host: 'mail-0', pid: 1, boot: 'one' })
    const again = aWorker({ id: before.id, host: 'mail-0', pid: 1, boot: 'two' })
    assert.deepEqual(await backend.workers.join([elsewhere], longMs), [false])
    assert.deepEqual(await backend.workers.join([sameProcess], longMs), [false])
    assert.deepEqual(await backend.workers.join([again], longMs), [true])
    assert.deepEqual(await backend.workers.renew([again, before], longMs), [
      { status: 'here', wanted: 'run', graceMs: null },
      { status: 'taken' },
    ])
  })

  test("a renewal stores the worker's activity and extends its lease", async () => {
    await using backend = await open()
    const worker = aWorker()
    await backend.workers.join([worker], 1)
    const renewal = { ...worker, mode: 'quiet' as const, runningCount: 30 }
    const running = Array.from({ length: 20 }, (_, nr) => ({ id: `j${nr}`, kind: 'mail', ms: 100 - nr }))
    // Also when the lease has ended meanwhile: the row still belongs to the worker.
    assert.deepEqual(await backend.workers.renew([{ ...renewal, running }], longMs), [
      { status: 'here', wanted: 'run', graceMs: null },
    ])
    const { worker: found, now } = (await backend.workers.find(worker.id))!
    assert.deepEqual([found.mode, found.runningCount, found.running.length], ['quiet', 30, 20])
    assert.deepEqual(found.running[1], { id: 'j1', kind: 'mail', since: found.seenAt - 99 })
    assert.equal(found.leaseEndsAt, found.seenAt + longMs)
    assert.ok(found.leaseEndsAt > now)
  })

  test('a worker without a row learns so from its renewal', async () => {
    await using backend = await open()
    const [known, unknown] = [aWorker(), aWorker()]
    await backend.workers.join([known], longMs)
    const here = { status: 'here', wanted: 'run', graceMs: null }
    assert.deepEqual(await backend.workers.renew([unknown, known], longMs), [{ status: 'missing' }, here])
    assert.deepEqual(await backend.workers.wanted([known, unknown]), [here, { status: 'missing' }])
    assert.equal(await backend.workers.find(unknown.id), undefined)
    assert.deepEqual(await backend.workers.renew([], longMs), [])
    assert.deepEqual(await backend.workers.wanted([]), [])
    assert.deepEqual(await backend.workers.join([], longMs), [])
    await backend.workers.leave([])
  })

  test("an operator's request reaches the worker through its row", async () => {
    await using backend = await open()
    const { workers } = backend
    const [one, two] = [aWorker(), aWorker()]
    await workers.join([one, two], longMs)
    assert.equal(await workers.want(one.id, 'stop', 1_500), true)
    assert.equal(await workers.want(one.id, 'stop', 1_500), true, 'said again')
    assert.deepEqual(await workers.wanted([one, two]), [
      { status: 'here', wanted: 'stop', graceMs: 1_500 },
      { status: 'here', wanted: 'run', graceMs: null },
    ])
    assert.equal(await workers.want(two.id, 'quiet', null), true)
    assert.deepEqual(await workers.renew([two], longMs), [{ status: 'here', wanted: 'quiet', graceMs: null }])
    assert.equal((await workers.find(two.id))?.worker.wanted, 'quiet')
    assert.equal(await workers.want('none', 'quiet', null), false)
    const gone = aWorker()
    await workers.join([gone], 1)
    await until('the lease has ended', async () => !(await workers.want(gone.id, 'quiet', null)))
  })

  test('workers are listed by id, page by page, each once', async () => {
    await using backend = await open()
    const workers = Array.from({ length: 7 }, () => aWorker())
    await backend.workers.join(workers, longMs)
    const ids = workers.map(({ id }) => id).sort()
    const page = async (limit: number, after?: string) =>
      (await backend.workers.list({ limit, after })).workers.map(({ id }) => id)
    assert.deepEqual(await page(3), ids.slice(0, 3))
    assert.deepEqual(await page(3, ids[2]), ids.slice(3, 6))
    assert.deepEqual(await page(3, ids[5]), ids.slice(6))
    assert.deepEqual(await page(3, ids[6]), [])
  })

  test('pruning deletes workers that are gone for long, at most as many as asked', async () => {
    await using backend = await open()
    const { workers } = backend
    const live = aWorker()
    await workers.join([live], longMs)
    await workers.join(
      Array.from({ length: 5 }, () => aWorker()),
      1,
    )
    assert.equal(await workers.prune({ olderThanMs: 60_000, limit: 10 }), 0)
    await until(
      'their leases have ended',
      async () => (await workers.prune({ olderThanMs: 0, limit: 3 })) === 3,
    )
    assert.equal(await workers.prune({ olderThanMs: 0, limit: 10 }), 2)
    assert.equal(await workers.prune({ olderThanMs: 0, limit: 10 }), 0)
    assert.deepEqual(
      (await workers.list({ limit: 10 })).workers.map(({ id }) => id),
      [live.id],
    )
  })

  test("the store returns the kinds of a queue's ready jobs, with their count and oldest time", async () => {
    await using backend = await open()
    const { workers, jobs } = backend
    assert.deepEqual((await workers.readyKinds('mail', 10)).kinds, [])
    await jobs.add([
      aJob({ kind: 'b' }),
      aJob({ kind: 'a', priority: 9 }),
      aJob({ kind: 'a', meta: JSON.stringify({ limitKey: 'ada' }) }),
      aJob({ kind: 'c', due: { delayMs: longMs } }),
      aJob({ kind: 'd', queue: 'other' }),
      aJob({ kind: 'e' }),
    ])
    await claim(backend, { kinds: ['e'] })
    const { kinds, now } = await workers.readyKinds('mail', 10)
    assert.deepEqual(kinds.map(({ kind, count }) => [kind, count]).sort(), [
      ['a', 2],
      ['b', 1],
    ])
    for (const { oldestAt } of kinds) assert.ok(oldestAt <= now && now - oldestAt < 60_000)
  })

  test('a namespace does not see another namespace’s workers', async () => {
    await using backend = await open()
    const [mine, yours] = [backend.within(aNamespace()), backend.within(aNamespace())]
    const worker = aWorker()
    await mine.workers.join([worker], longMs)
    assert.deepEqual(await yours.workers.wanted([worker]), [{ status: 'missing' }])
    assert.equal(await yours.workers.want(worker.id, 'quiet', null), false)
    await yours.workers.leave([worker])
    assert.deepEqual(await yours.workers.join([aWorker({ id: worker.id })], longMs), [true])
    assert.equal((await mine.workers.list({ limit: 10 })).workers.length, 1)
  })

  test('a closed backend refuses every call on workers', async () => {
    const backend = await open({ namespace: aNamespace() })
    await backend.close()
    await assert.rejects(backend.workers.join([aWorker()], longMs), { code: 'closed' })
    await assert.rejects(backend.workers.wanted([aWorker()]), { code: 'closed' })
    await assert.rejects(backend.workers.list({ limit: 1 }), { code: 'closed' })
  })

  test.skipIf(!isShared)('workers of several processes are in one list', async () => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using two = await open({ namespace })
    const [first, second] = [aWorker({ id: 'a' }), aWorker({ id: 'b' })]
    await Promise.all([one.workers.join([first], longMs), two.workers.join([second], longMs)])
    const { workers } = await one.workers.list({ limit: 10 })
    assert.deepEqual(
      workers.map(({ id }) => id),
      ['a', 'b'],
    )
    await two.workers.want('a', 'quiet', null)
    assert.deepEqual(await one.workers.wanted([first]), [{ status: 'here', wanted: 'quiet', graceMs: null }])
  })
}

/** A worker with the fields that the test gives, and sensible defaults. */
export function aWorker(worker: Partial<NewWorker> = {}): NewWorker {
  const id = worker.id ?? randomBytes(9).toString('hex')
  return {
    ...{ id, workerId: id, session: randomBytes(9).toString('hex'), boot: 'boot', via: 'library' },
    ...{ host: 'mars', pid: 4_242, queues: ['mail'], kinds: ['mail', 'sms'], schemas: {}, concurrency: 10 },
    ...{ release: '1.2.3', version: '0.1.0', ageMs: 0, mode: 'running', running: [], runningCount: 0 },
    ...worker,
  }
}
