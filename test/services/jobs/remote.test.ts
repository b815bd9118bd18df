/** What only a remote box can show: its refusals, and faults between the box and its server. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createHttpServer, request as forward } from 'node:http'
import type { AddressInfo } from 'node:net'
import { open } from 'signalbox'
import { createClient, events, type StreamEvent } from 'signalbox/client'
import { createServer, type Server } from 'signalbox/server'
import { describe, test } from 'vitest'
import { jobIn, stages, until } from './stage.ts'

for (const stage of stages().filter(({ isRemote }) => isRemote)) {
  describe(stage.title, { concurrent: true }, () => {
    stage.story('a remote box refuses every transaction, and writes nothing for it', async (scene) => {
      const box = await scene.open()
      const refused = { code: 'transaction_unsupported', message: /over HTTP/ }
      await assert.rejects(box.jobs.add('x', {}, { tx: {} }), refused)
      await assert.rejects(box.jobs.addMany([{ kind: 'x' }], { tx: {} }), refused)
      const { id } = await box.jobs.add('held')
      const [job] = await box.jobs.claim()
      await assert.rejects(box.jobs.ack(job!, { tx: {} }), refused)
      await assert.rejects(box.jobs.nack(job!, { tx: {} }), refused)
      assert.throws(
        () => box.jobs.worker({ handlers: { charge: { finish: 'transaction', run: () => 1 } } }),
        refused,
      )
      assert.equal((await box.jobs.find(id))?.state, 'running')
      await box.jobs.ack(job!)
      assert.deepEqual(
        (await box.jobs.list()).items.map(({ state }) => state),
        ['completed'],
      )
    })

    stage.story(
      'a handler on a remote box that asks for a transaction fails with the refusal',
      async (scene) => {
        const box = await scene.open()
        let isWorked = false
        await scene.work(box, {
          handlers: {
            ours: (job) =>
              job.transaction(() => {
                isWorked = true
              }),
            theirs: (job) => job.ack({ tx: {} }),
            swallows: (job) => job.ack({ tx: {} }).catch(() => 'done'),
          },
        })
        const added = await box.jobs.addMany(
          ['ours', 'theirs', 'swallows'].map((kind) => ({ kind, maxAttempts: 1 })),
        )
        const codes: unknown[] = []
        for (const { id } of added) codes.push((await jobIn(box, id, 'dead')).error?.code)
        // A handler that uses `tx` has to ack in it: a return is then no ack.
        assert.deepEqual(codes, ['transaction_unsupported', 'transaction_unsupported', 'ack_missing'])
        assert.equal(isWorked, false)
      },
    )

    stage.story(
      'a call larger than the server accepts is refused whole, or sent in parts',
      async (scene) => {
        const box = await scene.open()
        const many = Array.from({ length: 1_001 }, () => ({ kind: 'mail' }))
        await assert.rejects(box.jobs.addMany(many), { code: 'too_large', message: /1000/ })
        assert.deepEqual((await box.jobs.list()).items, [])
        // Concurrent adds share a request; together these are larger than one may be.
        const payload = 'x'.repeat(250_000)
        const added = await Promise.all(Array.from({ length: 40 }, () => box.jobs.add('mail', payload)))
        assert.equal(new Set(added.map(({ id }) => id)).size, 40)
        const { items } = await box.jobs.list({ limit: 100 })
        assert.equal(items.filter((job) => job.payload === payload).length, 40)
        const claimed = await box.jobs.claim({ limit: 100 })
        assert.equal(claimed.length, 40)
      },
      40_000,
    )

    stage.story('an invalid add does not affect other adds that share its request', async (scene) => {
      const box = await scene.open()
      const poisoned = { constructor: { prototype: { admin: true } } }
      const outcomes = await Promise.allSettled(
        [1, poisoned, 3].map((payload) => box.jobs.add('mail', payload)),
      )
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ['fulfilled', 'rejected', 'fulfilled'],
      )
      assert.equal((await box.jobs.list()).items.length, 2)
    })

    stage.story(
      'a call whose answer is lost is repeated, and takes effect once',
      async (scene) => {
        await using proxy = await lossyProxy(await stage.url())
        const box = await open(proxy.url, { namespace: scene.namespace })
        try {
          const runs = new Map<string, number>()
          const added: string[] = []
          for (let nth = 0; nth < 20; nth++) added.push((await box.jobs.add('count', nth)).id)
          const worker = await scene.work(box as never, {
            concurrency: 4,
            handlers: { count: (job) => void runs.set(job.id, (runs.get(job.id) ?? 0) + 1) },
          })
          await until('all are done', () => worker.counts.completed === 20, 30_000)
          await worker.stop()
          assert.ok(proxy.lost > 10, `${proxy.lost} answers were lost`)
          assert.deepEqual([worker.counts.lost, worker.counts.failed], [0, 0])
          const { items } = await box.jobs.list({ limit: 100 })
          assert.deepEqual(items.map(({ id }) => id).toSorted(), added.toSorted())
          assert.ok(items.every(({ state, attempt }) => state === 'completed' && attempt === 1))
          assert.deepEqual(
            added.map((id) => runs.get(id)),
            added.map(() => 1),
          )
        } finally {
          await box.close()
        }
      },
      40_000,
    )

    stage.tableStory('wake reaches the workers of other boxes through the server', async (scene) => {
      const [workers, other] = [await scene.open(), await scene.open()]
      await scene.work(workers, { pollMs: 3_600_000, handlers: { mail: () => 'sent' } })
      const session = await scene.connect()
      const store = await scene.openStore()
      await session.begin()
      const { id } = await store.jobs.add('mail', {}, { tx: session.tx })
      await session.commit()
      other.jobs.wake('default')
      assert.equal((await jobIn(other, id, 'completed')).result, 'sent')
    })
  })
}

test.concurrent('a worker continues after its server was away, and reports what it finished meanwhile', async () => {
  await using store = await open('memory:')
  let server: Server = createServer({ box: store, port: 0 })
  const { url } = await server.listen()
  const box = await open(url as 'http://', { timeoutMs: 5_000 })
  try {
    const worker = box.jobs.worker({ pollMs: 3_600_000, handlers: { mail: (job) => job.payload } })
    await worker.start()
    const first = await box.jobs.add('mail', 1)
    await until('the first is done', async () => (await box.jobs.find(first.id))?.state === 'completed')

    await server.close({ graceMs: 100 })
    await Promise.all([
      assert.rejects(box.jobs.add('mail', 'lost'), { code: 'store_unavailable' }),
      assert.rejects(box.ping(), { code: 'store_unavailable' }),
    ])
    // Another client adds a job while no server runs; no hint of it can arrive.
    const second = await store.jobs.add('mail', 2)
    server = createServer({ box: store, port: Number(new URL(url).port) })
    await server.listen()
    await until(
      'the second is done',
      async () => (await store.jobs.find(second.id))?.state === 'completed',
      15_000,
    )
    await box.ping()
  } finally {
    await box.close()
    await server.close({ graceMs: 100 })
  }
})

test("a box that a token opens acts in the token's namespace, and ends when the token is revoked", async () => {
  await using store = await open('memory:')
  const bootstrap = 'bootstrap-secret-of-forty-characters-0123'
  await using server = createServer({ box: store, port: 0, bootstrap: [bootstrap] })
  const { url } = await server.listen()
  using admin = createClient(url, { token: bootstrap })
  for (const options of [{}, { token: 'sbx_wrong' }])
    await assert.rejects(open(url as 'http://', options), (error: { code: string; message: string }) => {
      assert.equal(error.code, 'unauthorized')
      assert.doesNotMatch(error.message, /sbx_wrong/)
      return true
    })

  const { id, secret } = await admin.tokens.create({ name: 'worker', scope: 'work', namespace: 'payments' })
  const box = await open(url as 'http://', { token: secret })
  try {
    const added = await box.jobs.add('mail')
    assert.equal(await admin.jobs.find(added.id), undefined)
    using theirs = createClient(url, { token: bootstrap, namespace: 'payments' })
    assert.equal((await theirs.jobs.find(added.id))?.kind, 'mail')
    await assert.rejects(box.jobs.pause('default'), { code: 'forbidden' })
    await assert.rejects(open(url as 'http://', { token: secret, namespace: 'other' }), { code: 'forbidden' })

    assert.deepEqual(
      (await admin.tokens.list()).items.map((token) => [token.id, token.revokedAt]),
      [[id, null]],
    )
    await admin.tokens.revoke(id)
    await assert.rejects(box.jobs.add('mail'), { code: 'unauthorized' })
  } finally {
    await box.close()
  }
})

test('ping explains why a server takes no work', async () => {
  await using store = await open('memory:')
  const box = {
    ...store,
    backend: { ...store.backend, ping: () => Promise.reject(new Error('the store is away')) },
  }
  await using server = createServer({ box, port: 0 })
  const { url } = await server.listen()
  await using remote = await open(url as 'http://')
  await assert.rejects(remote.ping(), { code: 'store_unavailable', message: /is not ready \(store/ })
  assert.deepEqual(remote.warnings, [])
})

test('a script claims, waits, acks and watches with the client alone', async () => {
  await using store = await open('memory:')
  await using server = createServer({ box: store, port: 0 })
  using client = createClient((await server.listen()).url, { namespace: 'für scripts' })
  const seen: StreamEvent[] = []
  const watching = new AbortController()
  const watched = client.stream(events, { signal: watching.signal, onEvent: (event) => seen.push(event) })
  await until('the present state came', () => seen.length === 1)
  assert.deepEqual([seen[0]?.type, seen[0]?.data], ['queues', { items: [] }])

  const waiting = client.jobs.claim({ waitMs: '30s', workerId: 'script' })
  const { id } = await client.jobs.add('mail', { to: 'Ada' }, { priority: 2 })
  const [job] = await waiting
  assert.deepEqual([job?.id, job?.payload, job?.workerId], [id, { to: 'Ada' }, 'script'])
  assert.ok((await client.jobs.renew(job!, '1m')).leaseEndsAt > job!.leaseEndsAt)
  assert.deepEqual(await client.jobs.ack(job!, { result: 'sent', ranMs: 5 }), { id, state: 'completed' })
  await assert.rejects(client.jobs.nack(job!), { code: 'lease_lost' })
  assert.equal((await client.jobs.find(id))?.result, 'sent')
  assert.equal(await client.jobs.find('unknown'), undefined)
  await assert.rejects(client.jobs.cancel('unknown'), { code: 'not_found' })

  const stop = new AbortController()
  const given = client.jobs.claim({ waitMs: '30s', signal: stop.signal })
  setTimeout(() => stop.abort(new Error('enough')), 20)
  await assert.rejects(given, /enough/)

  const [one, two] = await client.jobs.addMany([
    { kind: 'a', queue: 'q' },
    { kind: 'b', queue: 'q', delayMs: '1h' },
  ])
  await until('the numbers came', () =>
    seen.some(({ data }) =>
      (data as { items: { queue: string }[] }).items.some(({ queue }) => queue === 'q'),
    ),
  )
  watching.abort()
  await watched
  assert.deepEqual(await client.jobs.pause('q'), { queue: 'q', paused: true })
  assert.deepEqual(await client.jobs.claim({ queues: ['q'] }), [])
  assert.deepEqual(await client.jobs.resume('q'), { queue: 'q', paused: false })
  const [line] = await client.jobs.stats()
  assert.deepEqual([line?.queue, line?.ready, line?.scheduled], ['q', 1, 1])
  assert.deepEqual(await client.jobs.cancel(two!.id), { state: 'cancelled', cancelRequested: false })
  assert.deepEqual(await client.jobs.retry(two!.id), { id: two!.id, state: 'ready' })
  const page = await client.jobs.list({ queue: 'q', limit: 1 })
  assert.deepEqual([page.items[0]?.id, page.cursor], [two!.id, two!.id])
  const rest = await client.jobs.list({ queue: 'q', limit: 5, cursor: page.cursor! })
  assert.deepEqual([rest.items.map((job) => job.id), rest.cursor], [[one!.id], null])
  const [dead] = await client.jobs.claim({ queues: ['q'], kinds: ['a'] })
  assert.equal((await client.jobs.nack(dead!, { error: 'no', dead: true })).state, 'dead')
  assert.deepEqual(await client.jobs.retryDead({ queue: 'q' }), { retried: 1 })
  assert.deepEqual(await client.jobs.prune({ olderThanMs: 0 }), { pruned: 1 })
  await client.jobs.wake('q')
})

/** Forwards requests, and drops the first answer to each that changes something. */
async function lossyProxy(
  target: string,
): Promise<{ url: 'http://'; readonly lost: number } & AsyncDisposable> {
  const answered = new Set<string>()
  const server = createHttpServer((incoming, outgoing) => {
    const { method, url, headers } = incoming
    const { host } = new URL(target)
    const upstream = forward(target + url!, { method: method!, headers: { ...headers, host } }, (answer) => {
      const key = headers['idempotency-key'] as string | undefined
      if (key === undefined || answered.has(key)) {
        outgoing.writeHead(answer.statusCode!, answer.headers)
        outgoing.flushHeaders()
        answer.pipe(outgoing)
        return
      }
      // The whole answer has arrived, so the server has done the call.
      answer.resume().on('end', () => {
        answered.add(key)
        outgoing.destroy()
      })
    })
    upstream.on('error', () => outgoing.destroy())
    outgoing.on('close', () => upstream.destroy())
    incoming.pipe(upstream)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` as 'http://',
    get lost() {
      return answered.size
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
