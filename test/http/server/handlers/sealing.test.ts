import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type Box,
  createAesSealer,
  defineJob,
  isSignalboxError,
  open,
  type RemoteBox,
  type RemoteUrl,
  type Sealer,
} from 'signalbox'
import type { JobRecord, JobStore } from 'signalbox/jobs'
import * as v from 'valibot'
import { describe, test } from 'vitest'
import * as z from 'zod'
import { within } from '../../../support/deadline.ts'
import { serving } from '../stage.ts'

/** What jobs carry is sealed on its way into the store: the same in memory, in a file, and through a server. */

const [old, young] = [randomBytes(32), randomBytes(32)]
const oldKey = createAesSealer({ keys: { old }, current: 'old' })
const bothKeys = createAesSealer({ keys: { old, young }, current: 'young' })
const youngKey = createAesSealer({ keys: { young }, current: 'young' })
/** Neither in the table nor on the wire. */
const secret = 'sesame'

type Opened = Pick<RemoteBox, 'jobs'>

/** Boxes on one store, with and without a key; `store` is what is really kept. */
interface Scene extends AsyncDisposable {
  readonly store: JobStore
  box(sealer?: Sealer): Promise<Opened>
}

async function fileScene(): Promise<Scene> {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-sealing-'))
  const url = `sqlite:${join(folder, 'jobs.db')}`
  const boxes = [await open(url)]
  return {
    store: boxes[0]!.backend.jobs,
    async box(sealer) {
      const box = await open(url, { jobs: { sealer } })
      boxes.push(box)
      return box as unknown as Opened
    },
    async [Symbol.asyncDispose]() {
      for (const box of boxes.reverse()) await box.close()
      await rm(folder, { recursive: true })
    },
  }
}

async function remoteScene(): Promise<Scene> {
  const stage = await serving()
  const boxes: RemoteBox[] = []
  return {
    store: stage.box.backend.jobs,
    async box(sealer) {
      const box = await open(stage.url as RemoteUrl, { jobs: { sealer } })
      boxes.push(box)
      return box
    },
    async [Symbol.asyncDispose]() {
      for (const box of boxes) await box.close()
      await stage[Symbol.asyncDispose]()
    },
  }
}

function fail(message: string): never {
  throw new Error(message)
}

/** Runs jobs of the kind until one has ended so. */
async function runUntil(
  { jobs }: Opened,
  event: 'completed' | 'failed' | 'snoozed',
  run: (payload: unknown) => unknown = () => undefined,
): Promise<readonly string[]> {
  const warnings: string[] = []
  const worker = jobs.worker({ handlers: { mail: ({ payload }) => run(payload) }, pollMs: 50 })
  worker.on('warning', ({ error }) => {
    if (isSignalboxError(error)) warnings.push(error.code)
  })
  const ended = worker.once(event)
  await worker.start()
  await within(15_000, `a job has ${event}`, ended)
  await worker.stop()
  return warnings
}

/** The same job under another id, or with another payload. */
async function plant(store: JobStore, record: JobRecord, changes: Partial<JobRecord>): Promise<void> {
  const { id, queue, kind, payload, priority, maxAttempts, meta } = { ...record, ...changes }
  const plain = { uniqueKey: null, due: { delayMs: 0 }, backoff: null, timeoutMs: null }
  await store.add([{ ...plain, id, queue, kind, payload, priority, maxAttempts, meta }])
}

describe.each([
  ['in a file', fileScene],
  ['through a server', remoteScene],
] as const)('%s', (_, makeScene) => {
  test('the store never has the plain text, and a client with the key sees only plain text', async () => {
    await using scene = await makeScene()
    const box = await scene.box(oldKey)
    const stranger = await scene.box()
    const { id } = await box.jobs.add('mail', { to: secret }, { tags: ['plain'] })
    const [many] = await box.jobs.addMany([{ kind: 'other', payload: [secret] }])
    const kept = await scene.store.list({ limit: 10 })
    assert.equal(kept.length, 2)
    assert.doesNotMatch(JSON.stringify(kept), /sesame/)
    assert.deepEqual((await box.jobs.find(many!.id))!.payload, [secret])

    const seen: unknown[] = []
    await runUntil(box, 'completed', (payload) => {
      seen.push(payload)
      return { sent: secret }
    })
    assert.deepEqual(seen, [{ to: secret }])
    const { payload, result } = (await box.jobs.find(id))!
    assert.deepEqual([payload, result], [{ to: secret }, { sent: secret }])
    assert.doesNotMatch(JSON.stringify(await scene.store.find(id)), /sesame/)
    assert.deepEqual((await box.jobs.list({ state: 'completed' })).items[0]!.payload, { to: secret })

    const hidden = { sealed: true, code: 'payload_sealed' }
    const shown = (await stranger.jobs.find(id))!
    assert.deepEqual([shown.payload, shown.result, shown.tags], [hidden, hidden, ['plain']])
    assert.deepEqual((await stranger.jobs.list({ kind: 'mail' })).items[0]!.payload, hidden)
    assert.deepEqual((await stranger.jobs.list({ search: 'tag:plain' })).items[0]!.payload, hidden)
    assert.deepEqual((await box.jobs.list({ search: 'tag:plain' })).items[0]!.payload, { to: secret })
    // Nor is a word found in what it looks like.
    for (const search of ['sealed', `payload:"${id}"*`, secret])
      assert.deepEqual((await stranger.jobs.list({ search })).items, [], search)
  })

  test('a worker without the key spends no attempt, gives the reason, and leaves the job to others', async () => {
    await using scene = await makeScene()
    const [box, stranger] = [await scene.box(oldKey), await scene.box(youngKey)]
    const { id } = await box.jobs.add('mail', secret, { maxAttempts: 1 })
    assert.ok((await runUntil(stranger, 'snoozed')).includes('payload_sealed'))
    assert.match((await stranger.jobs.logs(id)).items[0]!.text, /key "old"/)
    const { state, attempt, snoozeCount } = (await box.jobs.find(id))!
    assert.deepEqual([state, attempt, snoozeCount], ['scheduled', 0, 1])
    await box.jobs.retry(id)
    await assert.rejects((await scene.box()).jobs.claim(), { code: 'payload_sealed' })
    await box.jobs.retry(id)
    await runUntil(await scene.box(bothKeys), 'completed', (payload) => assert.equal(payload, secret))
  })

  test('a sealed text that was changed or copied kills its job, and blocks no other', async () => {
    await using scene = await makeScene()
    const box = await scene.box(oldKey)
    const { id } = await box.jobs.add('mail', secret, { delayMs: '1h' })
    const record = (await scene.store.find(id))!
    const changed = `${record.payload.slice(0, -6)}AAAA"}`
    await plant(scene.store, record, { id: 'copied' })
    await plant(scene.store, record, { id: 'changed', payload: changed })
    assert.deepEqual((await box.jobs.find('copied'))!.payload, { sealed: true, code: 'seal_broken' })
    await runUntil(box, 'failed')
    const claimed = await box.jobs.claim({ limit: 10 })
    assert.deepEqual(claimed, [])
    for (const planted of ['copied', 'changed']) {
      const { state, error } = (await box.jobs.find(planted))!
      assert.deepEqual([state, error?.code], ['dead', 'seal_broken'])
    }
    await box.jobs.retry(id)
    await box.jobs.retry('copied')
    assert.deepEqual(
      (await box.jobs.claim({ limit: 10 })).map((job) => job.payload),
      [secret],
    )
  })

  test('keys change while jobs wait, and plain jobs from before the first key stay readable', async () => {
    await using scene = await makeScene()
    await (await scene.box()).jobs.add('mail', 'plain', { priority: 1 })
    await (await scene.box(oldKey)).jobs.add('mail', 'first')
    const box = await scene.box(bothKeys)
    await box.jobs.add('mail', 'second', { priority: -1 })
    const seen: unknown[] = []
    for (const job of await box.jobs.claim({ limit: 10 })) {
      seen.push(job.payload)
      await box.jobs.ack({ id: job.id, token: job.token }, { result: job.payload })
    }
    assert.deepEqual(seen, ['plain', 'first', 'second'])
    const { items } = await (await scene.box(youngKey)).jobs.list()
    assert.deepEqual(items.map(({ result }) => result).toSorted(), ['first', 'plain', 'second'])
  })

  test('a schema sees the plain payload, and a failing sealer adds nothing and stores no plain result', async () => {
    await using scene = await makeScene()
    const definition = defineJob('mail', { schema: z.object({ to: z.string() }) })
    const box = await scene.box(oldKey)
    await assert.rejects(box.jobs.add(definition, { to: 5 } as never), { code: 'invalid_argument' })
    await box.jobs.add(definition, { to: secret })
    const failing: Sealer = { open: oldKey.open, seal: async () => Promise.reject(new Error('no key today')) }
    const broken = await scene.box(failing)
    await assert.rejects(broken.jobs.add('mail', secret), { code: 'seal_failed' })
    await assert.rejects(broken.jobs.addMany([{ kind: 'mail' }, { kind: 'mail' }]), { code: 'seal_failed' })
    const [job, ...others] = await broken.jobs.claim({ limit: 10 })
    assert.deepEqual([job!.payload, others], [{ to: secret }, []])
    await broken.jobs.ack(job!, { result: secret })
    assert.doesNotMatch((await scene.store.find(job!.id))!.result!, /sesame/)
    assert.equal(((await box.jobs.find(job!.id))!.result as { sealed: boolean }).sealed, true)
  })
})

test('jobs are sealed in transactions too, when they are added and when they end', async () => {
  await using scene = await fileScene()
  const box = (await scene.box(oldKey)) as unknown as Box
  const { id } = await box.jobs.add('mail', secret)
  const worker = box.jobs.worker({
    handlers: {
      mail: (job) =>
        job.transaction(async (tx) => {
          await box.jobs.add('next', secret, { tx: tx.raw })
          return secret
        }),
    },
  })
  const ended = worker.once('completed')
  await worker.start()
  await within(15_000, 'the transaction is committed', ended)
  assert.equal((await box.jobs.find(id))!.result, secret)
  assert.deepEqual((await box.jobs.claim())[0]!.payload, secret)
  assert.doesNotMatch(JSON.stringify(await scene.store.list({ limit: 10 })), /sesame/)
})

test('a job handed directly to an idle worker of the same process is sealed like any other', async () => {
  await using box = await open('memory:', { jobs: { sealer: oldKey } })
  const worker = box.jobs.worker({ handlers: { mail: ({ payload }) => payload } })
  const ended = worker.once('completed')
  await worker.start()
  const { id } = await box.jobs.add('mail', secret)
  await within(15_000, 'it is done', ended)
  assert.equal((await box.jobs.find(id))!.result, secret)
  assert.doesNotMatch(JSON.stringify(await box.backend.jobs.find(id)), /sesame/)
  assert.deepEqual((await box.jobs.list({ search: `payload:${secret}` })).items.length, 1)
})

test('a sealer may answer late, and one that never answers costs no lease and no attempt', async () => {
  const later: Sealer = {
    seal: async (plain, context) => oldKey.seal(plain, context),
    open: async (sealed, context) => oldKey.open(sealed, context),
  }
  await using box = await open('memory:', { jobs: { sealer: later } })
  const added = await box.jobs.addMany(
    Array.from({ length: 250 }, (_, payload) => ({ kind: 'mail', payload })),
  )
  const { items } = await box.jobs.list({ limit: 500 })
  assert.deepEqual(
    items.map(({ payload }) => payload),
    added.map((_, index) => 249 - index),
  )
  const never: Sealer = { seal: oldKey.seal, open: () => new Promise(() => undefined) }
  await using deaf = await open('memory:', { jobs: { sealer: never } })
  const { id } = await deaf.jobs.add('mail', secret)
  await assert.rejects(deaf.jobs.claim({ leaseMs: 4_500 }), { code: 'payload_sealed' })
  const { state, attempt } = (await deaf.backend.jobs.find(id))!
  assert.deepEqual([state, attempt], ['scheduled', 0])
})

test('a sealer that never answers costs no attempt, however many jobs are claimed at once', async () => {
  const never: Sealer = { seal: oldKey.seal, open: () => new Promise(() => undefined) }
  await using box = await open('memory:', { jobs: { sealer: never } })
  await box.jobs.addMany(Array.from({ length: 450 }, () => ({ kind: 'mail', maxAttempts: 1 })))
  await assert.rejects(box.jobs.claim({ limit: 450, leaseMs: 4_500 }), { code: 'payload_sealed' })
  const kept = await box.backend.jobs.list({ limit: 500 })
  assert.equal(kept.filter(({ state, attempt }) => state === 'scheduled' && attempt === 0).length, 450)
})

test('a payload or result that looks sealed reaches handlers as it was', async () => {
  const lookalikes = [
    { $sealed: 'x' },
    { $sealed: '' },
    { $sealed: 'v1:c2VjcmV0' },
    { $sealed: `${'0'.repeat(26)}:AAAA`, more: 1 },
  ]
  const twice = { $sealed: `${'0'.repeat(26)}:AAAA` }
  for (const sealer of [undefined, oldKey]) {
    await using box = await open('memory:', { jobs: { sealer } })
    for (const payload of sealer === undefined ? lookalikes : [...lookalikes, twice]) {
      const { id } = await box.jobs.add('mail', payload)
      const [job] = await box.jobs.claim()
      assert.deepEqual(job!.payload, payload)
      await box.jobs.ack(job!, { result: payload })
      const { payload: shown, result } = (await box.jobs.find(id))!
      assert.deepEqual([shown, result], [payload, payload])
    }
  }
})

test('schema errors that quote a sealed payload reach the worker and are stored nowhere', async () => {
  await using box = await open('memory:', { jobs: { sealer: oldKey } })
  const strict = defineJob('mail', { schema: v.object({ to: v.picklist(['unknown']) }) })
  const throwing = defineJob('call', {
    schema: v.object({
      to: v.pipe(
        v.string(),
        v.check((to) => fail(`what is ${to}?`)),
      ),
    }),
  })
  await box.jobs.addMany([
    { kind: 'mail', payload: { to: secret } },
    { kind: 'call', payload: { to: secret }, maxAttempts: 1 },
  ])
  const worker = box.jobs.worker({ handlers: [strict.handle(() => 1), throwing.handle(() => 1)] })
  const heard: string[] = []
  const { promise: ended, resolve } = Promise.withResolvers<void>()
  worker.on('failed', ({ error }) => {
    heard.push((error as Error).message)
    if (heard.length === 2) resolve()
  })
  await worker.start()
  await within(15_000, 'both have failed', ended)
  for (const message of heard) assert.match(message, /sesame/)
  const kept = await box.backend.jobs.list({ limit: 10 })
  assert.doesNotMatch(JSON.stringify(kept), /sesame/)
  const { items } = await box.jobs.list()
  assert.deepEqual(items.map(({ error }) => error?.code).toSorted(), ['invalid_payload', 'schema_failed'])
})

test('in a batch, and among plain jobs, only jobs that cannot be opened are left out', async () => {
  await using box = await open('memory:', { jobs: { sealer: youngKey } })
  await using other = await open('memory:', { jobs: { sealer: oldKey } })
  const { id } = await other.jobs.add('mail', secret)
  await plant(box.backend.jobs, (await other.backend.jobs.find(id))!, { id })
  await plant(box.backend.jobs, (await other.backend.jobs.find(id))!, { id: 'plain', payload: '1' })
  await box.jobs.add('mail', 2)
  const seen: unknown[] = []
  const worker = box.jobs.worker({
    handlers: {
      mail: {
        batch: { size: 3, waitMs: 0 },
        runBatch: (jobs) => void seen.push(...jobs.map(({ payload }) => payload)),
      },
    },
  })
  const { promise: ended, resolve } = Promise.withResolvers<void>()
  const look = () => (worker.counts.completed === 2 && worker.counts.snoozed === 1 ? resolve() : undefined)
  worker.on('completed', look)
  worker.on('snoozed', look)
  await worker.start()
  await within(15_000, 'two are done and one is put off', ended)
  assert.deepEqual(seen.toSorted(), [1, 2])
  const { state, attempt } = (await box.jobs.find(id))!
  assert.deepEqual([state, attempt], ['scheduled', 0])
})

test('a server gives a sealed job the id it is bound to, once', async () => {
  await using stage = await serving()
  await using box = await open(stage.url as RemoteUrl, { jobs: { sealer: oldKey } })
  const { id } = await box.jobs.add('mail', secret)
  const { payload } = (await stage.ask('GET', `/v1/jobs/${id}`)).body
  const add = async (body: unknown) => (await stage.ask('POST', '/v1/jobs', { body })).body
  const sealedFor = (other: string) => ({
    kind: 'mail',
    payload: { $sealed: payload.$sealed.replace(id, other) },
  })
  const fresh = `${id.slice(0, -1)}${id.endsWith('0') ? '1' : '0'}`
  assert.equal((await add({ kind: 'other', payload })).code, 'conflict')
  assert.equal((await add({ kind: 'mail', queue: 'other', payload })).code, 'conflict')
  assert.equal((await add({ kind: 'mail', payload: { $sealed: `${id}:AAAA` } })).code, 'conflict')
  assert.equal((await add([sealedFor(fresh), sealedFor(fresh)])).code, 'conflict')
  assert.equal((await add(sealedFor(`00${'0'.repeat(24)}`))).code, 'invalid_argument')
  assert.equal((await box.jobs.list()).items.length, 1)
  // Asked again, with or without a key, it is the same job, and there is one of it.
  for (const headers of [
    { 'idempotency-key': 'a' },
    { 'idempotency-key': 'a' },
    { 'idempotency-key': 'b' },
    {},
  ]) {
    const { status, body } = await stage.ask('POST', '/v1/jobs', { body: [sealedFor(fresh)], headers })
    assert.deepEqual([status, body], [201, { items: [{ id: fresh, duplicate: false }] }])
  }
  assert.equal((await box.jobs.list()).items.length, 2)
  // What only looks like it is a payload like any other.
  assert.notEqual((await add({ kind: 'mail', payload: { $sealed: 'x' } })).id, undefined)
})

test('a sealer that returns nothing adds nothing, and kills no job', async () => {
  const empty = new Uint8Array()
  await using box = await open('memory:', { jobs: { sealer: { seal: () => empty, open: oldKey.open } } })
  await assert.rejects(box.jobs.add('mail', secret), { code: 'seal_failed' })
  assert.deepEqual((await box.jobs.list()).items, [])
  await using deaf = await open('memory:', {
    jobs: { sealer: { seal: oldKey.seal, open: async () => empty } },
  })
  const { id } = await deaf.jobs.add('mail', secret, { maxAttempts: 1 })
  await assert.rejects(deaf.jobs.claim(), { code: 'payload_sealed' })
  const { state, attempt } = (await deaf.backend.jobs.find(id))!
  assert.deepEqual([state, attempt], ['scheduled', 0])
})

test('an invalid sealer is refused when the box is opened', async () => {
  for (const jobs of [
    { sealer: 5 },
    { sealer: {} },
    { sealer: { seal() {}, open: 5 } },
    { seal: oldKey },
    null,
  ])
    for (const url of ['memory:', 'http://127.0.0.1:1'])
      await assert.rejects(open(url as 'memory:', { jobs: jobs as never }), { code: 'invalid_argument' })
})
