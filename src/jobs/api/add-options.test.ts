import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError } from '../../core/errors.ts'
import { openMemory } from '../../storage/memory/index.ts'
import type { JobStore } from '../job-store.ts'
import { resolveWorkerOptions, type WorkerOptions } from '../worker/worker-options.ts'
import { resolveTags } from './add-options.ts'
import { createJobs } from './create-jobs.ts'
import type { Jobs } from './jobs-api.ts'

/** Jobs on a store that must not be called: bad input is refused before any read or write. */
function unreachable(): Jobs {
  const store = new Proxy({} as JobStore, {
    get: (_, name) => () => assert.fail(`the store was asked to ${String(name)}`),
  })
  return createJobs({
    store,
    notifier: { wake: () => assert.fail('the notifier was used'), listen: () => () => undefined },
  })
}

async function refuses(call: () => Promise<unknown>, message: RegExp, code = 'invalid_argument') {
  await assert.rejects(call, (error) => {
    assert.ok(isSignalboxError(error), `${error}`)
    assert.equal(error.code, code)
    assert.match(error.message, message)
    return true
  })
}

const tooLong = 'n'.repeat(192)
const badNames: readonly unknown[] = [
  '',
  tooLong,
  'a\nb',
  'a\0b',
  'a\u0085b',
  '\ud800',
  5,
  {},
  ['a'],
  Symbol('a'),
]

test('a name that is empty, too long, or has control characters or broken surrogates is refused everywhere', async () => {
  const jobs = unreachable()
  for (const bad of [...badNames, null, undefined] as string[]) {
    await refuses(() => jobs.add(bad), /add\.kind/)
    await refuses(() => jobs.addMany([{ kind: 'fine' }, { kind: bad }]), /addMany\[1\]\.kind/)
    await refuses(() => jobs.find(bad), /find\.id/)
    await refuses(() => jobs.cancel(bad), /cancel\.id/)
    await refuses(() => jobs.retry(bad), /retry\.id/)
    await refuses(() => jobs.pause(bad), /pause\.queue/)
    await refuses(() => jobs.resume(bad), /resume\.queue/)
    await refuses(() => jobs.ack({ id: bad, token: '1.0123456789abcdef' }), /job\.id/)
    await refuses(() => jobs.claim({ queues: [bad] }), /claim\.queues\[0\]/)
    await refuses(() => jobs.claim({ kinds: [bad] }), /claim\.kinds\[0\]/)
    assert.throws(() => jobs.wake(bad), /wake\.queue/)
  }
  for (const bad of badNames as string[]) {
    await refuses(() => jobs.add('mail', {}, { queue: bad }), /add\.queue/)
    await refuses(() => jobs.add('mail', {}, { uniqueKey: bad }), /add\.uniqueKey/)
    await refuses(() => jobs.list({ queue: bad }), /list\.queue/)
    await refuses(() => jobs.list({ kind: bad }), /list\.kind/)
    await refuses(() => jobs.list({ cursor: bad }), /list\.cursor/)
    await refuses(() => jobs.claim({ workerId: bad }), /claim\.workerId/)
    await refuses(() => jobs.retryDead({ queue: bad }), /retryDead\.queue/)
    await refuses(() => jobs.retryDead({ kind: bad }), /retryDead\.kind/)
  }
})

test('names of 191 characters in any script are accepted, and names of internal queues are not', async () => {
  await using memory = await openMemory({ namespace: 'n', migrate: true })
  const jobs = createJobs({ store: memory.jobs, notifier: memory.notifier })
  for (const name of [
    'n'.repeat(191),
    '🚀'.repeat(191),
    'Key ',
    'constructor',
    '__proto__',
    'a:b/c?%$1\'"`;--',
  ]) {
    const { id } = await jobs.add(name, null, { queue: name, uniqueKey: name })
    const job = await jobs.find(id)
    assert.deepEqual([job?.kind, job?.queue, job?.uniqueKey], [name, name, name])
  }
  await refuses(() => jobs.add('x', {}, { queue: 'signalbox.tasks' }), /belong to Signalbox/)
  await refuses(() => jobs.claim({ queues: ['signalbox.tasks'] }), /belong to Signalbox/)
})

test('numbers out of range or of another type are refused', async () => {
  const jobs = unreachable()
  const bad = (options: object, message: RegExp) => refuses(() => jobs.add('mail', {}, options), message)
  for (const priority of [2 ** 31, -(2 ** 31) - 1, 1.5, Number.NaN, '5', null, 5n])
    await bad({ priority }, /add\.priority/)
  for (const maxAttempts of [0, -1, 1_001, 1.5, '5', Number.POSITIVE_INFINITY])
    await bad({ maxAttempts }, /add\.maxAttempts/)
  for (const timeoutMs of [0, -1, 2 ** 31, 'soon', Number.NaN]) await bad({ timeoutMs }, /add\.timeoutMs/)
  for (const delayMs of [-1, 1.5, 'tomorrow', Number.NaN, 1e15]) await bad({ delayMs }, /add\.delayMs/)
  for (const runAt of [-1, 1.5, Number.NaN, new Date('nonsense'), '2026-01-01', 8.64e15 + 1])
    await bad({ runAt }, /add\.runAt/)
  await bad({ runAt: 5, delayMs: 5 }, /both runAt and delayMs/)
  for (const backoff of [
    { baseMs: -1 },
    { factor: 0.5 },
    { jitter: 2 },
    { maxMs: Number.NaN },
    { base: 5 },
    5,
    null,
  ])
    await bad({ backoff }, /backoff/)
  for (const leaseMs of [99, 86_400_001, 'x' as never, Number.NaN]) {
    await refuses(() => jobs.claim({ leaseMs }), /claim\.leaseMs/)
    await refuses(() => jobs.renew({ id: 'a', token: 'b' }, leaseMs), /renew\.leaseMs/)
  }
  for (const limit of [0, 1_001, 1.5]) await refuses(() => jobs.claim({ limit }), /claim\.limit/)
  for (const limit of [0, 501, 1.5]) await refuses(() => jobs.list({ limit }), /list\.limit/)
  for (const limit of [0, 10_001]) await refuses(() => jobs.retryDead({ limit }), /retryDead\.limit/)
  for (const olderThanMs of [-1, Number.NaN, 'old' as never, undefined as never])
    await refuses(() => jobs.prune({ olderThanMs }), /prune\.olderThanMs/)
})

test('a misspelt option is an error, not a default', async () => {
  const jobs = unreachable()
  const wrong = { retries: 3 } as never
  await refuses(() => jobs.add('mail', {}, wrong), /no option "retries"/)
  await refuses(() => jobs.addMany([], wrong), /no option "retries"/)
  await refuses(() => jobs.addMany([{ kind: 'mail', ...(wrong as object) }]), /addMany\[0\] has no option/)
  await refuses(() => jobs.addMany([{ kind: 'mail', tx: 1 } as never]), /addMany\[0\] has no option "tx"/)
  await refuses(() => jobs.claim(wrong), /no option/)
  await refuses(() => jobs.list(wrong), /no option/)
  await refuses(() => jobs.ack({ id: 'a', token: 'b' }, wrong), /no option/)
  await refuses(() => jobs.nack({ id: 'a', token: 'b' }, wrong), /no option/)
  await refuses(() => jobs.prune(wrong), /no option/)
  await refuses(() => jobs.retryDead(wrong), /no option/)
})

test('a payload or result that is not JSON is refused, and one that is too large', async () => {
  const jobs = unreachable()
  const held = { id: 'a', token: 'b' }
  await refuses(() => jobs.add('mail', { at: new Date() }), /add\.payload\.at is a Date/)
  await refuses(() => jobs.addMany([{ kind: 'mail', payload: [Number.NaN] }]), /addMany\[0\]\.payload\[0\]/)
  await refuses(() => jobs.add('mail', 'x'.repeat(300_000)), /262144/, 'too_large')
  await refuses(() => jobs.ack(held, { result: 'a\0' }), /ack\.result/)
  await refuses(() => jobs.ack(held, { result: 'x'.repeat(300_000) }), /262144/, 'too_large')
})

test('addMany takes a list of at most 10,000 jobs, and an empty one costs nothing', async () => {
  const jobs = unreachable()
  assert.deepEqual(await jobs.addMany([]), [])
  for (const bad of [null, undefined, {}, 'mail', new Set()] as never[])
    await refuses(() => jobs.addMany(bad), /takes a list/)
  // biome-ignore lint/suspicious/noSparseArray: a hole is no job.
  await refuses(() => jobs.addMany([, { kind: 'mail' }] as never), /addMany\[0\]/)
  for (const bad of [null, 5, 'mail', []] as never[]) await refuses(() => jobs.addMany([bad]), /addMany\[0\]/)
  const many = Array.from({ length: 10_001 }, () => ({ kind: 'mail' }))
  await refuses(() => jobs.addMany(many), /10000/, 'too_large')
})

test('a nack accepts dead only as true or false, and only a wait that a store can count', async () => {
  const jobs = unreachable()
  const held = { id: 'a', token: 'b' }
  for (const dead of ['yes', 1, null] as never[]) await refuses(() => jobs.nack(held, { dead }), /nack\.dead/)
  for (const retryInMs of [-1, 1.5, Number.NaN, 'soon' as never, Number.MAX_SAFE_INTEGER])
    await refuses(() => jobs.nack(held, { retryInMs }), /nack\.retryInMs/)
})

test('a job that was not claimed cannot be acked', async () => {
  const jobs = unreachable()
  for (const bad of [
    null,
    undefined,
    'id',
    {},
    { id: 'a' },
    { token: 'b' },
    { id: 'a', token: 5 },
  ] as never[]) {
    await refuses(() => jobs.ack(bad), /claimed job|job\.id/)
    await refuses(() => jobs.nack(bad), /claimed job|job\.id/)
    await refuses(() => jobs.renew(bad), /claimed job|job\.id/)
  }
})

test('a claim asks for 1 to 100 queues', async () => {
  const jobs = unreachable()
  for (const queues of [[], null, 'mail', {}, Array.from({ length: 101 }, (_, n) => `q${n}`)] as never[])
    await refuses(() => jobs.claim({ queues }), /1 to 100 queue names/)
  // biome-ignore lint/suspicious/noSparseArray: a hole is no kind.
  for (const kinds of ['mail', {}, null, 5, [], [, 'mail']] as never[])
    await refuses(() => jobs.claim({ kinds }), /claim\.kinds/)
})

test('a job acked by its id and token alone keeps its attempt', async () => {
  await using memory = await openMemory({ namespace: 'n', migrate: true })
  const jobs = createJobs({ store: memory.jobs, notifier: memory.notifier })
  const { id } = await jobs.add('mail')
  const [first] = await jobs.claim()
  await jobs.nack({ id, token: first!.token }, { retryInMs: 0 })
  const [second] = await jobs.claim()
  await jobs.ack({ id, token: second!.token }, { result: { ok: true } })
  const job = await jobs.find(id)
  assert.deepEqual([job?.state, job?.attempt, job?.result], ['completed', 2, { ok: true }])
  await assert.rejects(jobs.ack({ id, token: second!.token }), { code: 'lease_lost' })
  await assert.rejects(jobs.ack({ id: 'unknown', token: second!.token }), { code: 'lease_lost' })
})

test('a worker without handlers, or with invalid options, is refused', () => {
  const run = () => undefined
  const bad = (options: object, message: RegExp) => {
    assert.throws(
      () => resolveWorkerOptions(options as WorkerOptions),
      (error) => isSignalboxError(error, 'invalid_argument') && message.test(error.message),
    )
  }
  for (const handlers of [undefined, null, {}, 5, [], 'mail']) bad({ handlers }, /worker\.handlers/)
  for (const handler of [undefined, null, 5, {}, { run: 5 }, { run, when: 1 }, { run, finish: 'soon' }])
    bad({ handlers: { mail: handler } }, /worker\.handlers\.mail/)
  for (const group of [0, 1.5, 1_001]) bad({ handlers: { mail: { run, group } } }, /group/)
  bad({ handlers: { 'a\nb': run } }, /a kind in worker\.handlers/)
  for (const concurrency of [0, -1, 1.5, 100_001]) bad({ handlers: { run }, concurrency }, /concurrency/)
  for (const prefetch of [-1, 10_001, '5']) bad({ handlers: { run }, prefetch }, /prefetch/)
  for (const leaseMs of [99, 'x']) bad({ handlers: { run }, leaseMs }, /leaseMs/)
  for (const pollMs of [9, 3_600_001]) bad({ handlers: { run }, pollMs }, /pollMs/)
  for (const watchdogMs of [99, 2 ** 31]) bad({ handlers: { run }, watchdogMs }, /watchdogMs/)
  for (const workerId of ['', tooLong]) bad({ handlers: { run }, workerId }, /workerId/)
  bad({ handlers: { run }, concurency: 5 }, /no option "concurency"/)
})

test('handlers are own keys only: constructor and __proto__ have none', () => {
  const { handlers } = resolveWorkerOptions({ handlers: { mail: () => undefined } })
  assert.deepEqual([...handlers.keys()], ['mail'])
  for (const kind of ['constructor', '__proto__', 'toString', 'hasOwnProperty'])
    assert.equal(handlers.get(kind), undefined)
})

test('tags are up to 20 texts of up to 64 characters, each once', () => {
  const most = Array.from({ length: 20 }, (_, i) => `${i} ${'🚂'.repeat(60)}`)
  assert.deepEqual(resolveTags('add.tags', most), most)
  assert.deepEqual(resolveTags('add.tags', ['a', 'b', 'a']), ['a', 'b'])
  assert.deepEqual(resolveTags('add.tags', []), [])
  const refused: readonly [value: unknown, message: RegExp][] = [
    ['a', /^add\.tags must be a list of up to 20 texts/],
    [null, /^add\.tags must be/],
    [[...most, 'one more'], /^add\.tags must be/],
    [['a', ''], /^add\.tags\[1\]/],
    [['x'.repeat(65)], /^add\.tags\[0\]/],
    [['a\nb'], /^add\.tags\[0\]/],
    [['\ud800'], /^add\.tags\[0\]/],
    [[7], /^add\.tags\[0\]/],
  ]
  for (const [value, message] of refused) {
    assert.throws(() => resolveTags('add.tags', value), { code: 'invalid_argument', message })
  }
})
