import assert from 'node:assert/strict'
import { test } from 'vitest'
import { openMemory } from '../../storage/memory/index.ts'
import { createJobs } from './create-jobs.ts'
import type { Jobs } from './jobs-api.ts'

/** Jobs on a store in memory whose clock is moved by hand. */
async function opened() {
  let now = 1_000_000
  const memory = await openMemory({ namespace: 'n', migrate: true, now: () => now })
  const jobs = createJobs({ store: memory.jobs, notifier: memory.notifier })
  return {
    jobs,
    memory,
    pass: (ms: number) => {
      now += ms
    },
    now: () => now,
    [Symbol.asyncDispose]: () => memory.close(),
  }
}

async function claimOne(jobs: Jobs, options?: Parameters<Jobs['add']>[2]) {
  await jobs.add('mail', {}, options)
  const [job] = await jobs.claim()
  return job!
}

test('ack and nack return the present state of the job', async () => {
  await using box = await opened()
  const { jobs } = box
  assert.deepEqual(await jobs.ack(await claimOne(jobs)), { state: 'completed' })
  assert.deepEqual(await jobs.nack(await claimOne(jobs)), { state: 'scheduled' })
  assert.deepEqual(await jobs.nack(await claimOne(jobs, { maxAttempts: 1 })), { state: 'dead' })
  assert.deepEqual(await jobs.nack(await claimOne(jobs), { dead: true }), { state: 'dead' })
  assert.deepEqual(await jobs.nack(await claimOne(jobs), { handBack: true }), { state: 'ready' })
})

test('a job shows its tags while it is live and after its end', async () => {
  await using box = await opened()
  const { jobs } = box
  const { id } = await jobs.add('mail', {}, { tags: ['ada', 'welcome', 'ada'] })
  assert.deepEqual((await jobs.find(id))?.tags, ['ada', 'welcome'])
  const [job] = await jobs.claim()
  assert.deepEqual(job?.tags, ['ada', 'welcome'])
  await jobs.ack(job!)
  assert.deepEqual((await jobs.list()).items[0]?.tags, ['ada', 'welcome'])
  await jobs.addMany([{ kind: 'mail', tags: ['many'] }, { kind: 'mail' }])
  assert.deepEqual(
    (await jobs.list({ state: 'ready' })).items.map(({ tags }) => tags),
    [[], ['many']],
  )
  await assert.rejects(jobs.add('mail', {}, { tags: ['a', ''] }), {
    code: 'invalid_argument',
    message: /^add\.tags\[1\] /,
  })
})

test('a job handed back is ready at once and keeps its attempt', async () => {
  await using box = await opened()
  const job = await claimOne(box.jobs, { maxAttempts: 1 })
  await box.jobs.nack({ id: job.id, token: job.token }, { handBack: true })
  const found = await box.jobs.find(job.id)
  assert.deepEqual([found?.state, found?.attempt, found?.error], ['ready', 0, null])
})

test('a job handed back for the eleventh time loses its attempt', async () => {
  await using box = await opened()
  const { id } = await box.jobs.add('mail', {}, { maxAttempts: 1 })
  const states: string[] = []
  for (let round = 0; round < 11; round++) {
    const [job] = await box.jobs.claim()
    states.push((await box.jobs.nack(job!, { handBack: true })).state)
  }
  assert.deepEqual(states, [...Array.from({ length: 10 }, () => 'ready'), 'dead'])
  assert.equal((await box.jobs.find(id))?.error?.code, 'handed_back')
})

test('a call that both hands back and fails a job is refused, and nothing is written', async () => {
  await using box = await opened()
  const job = await claimOne(box.jobs)
  for (const also of [{ error: 'x' }, { retryInMs: 0 }, { dead: true }]) {
    await assert.rejects(box.jobs.nack(job, { handBack: true, ...also }), {
      code: 'invalid_argument',
      message: /handBack and also error, retryInMs, backoff, snoozeMs or dead/,
    })
  }
  assert.equal((await box.jobs.find(job.id))?.state, 'running')
})

test('a handler that reports its running time sets the real start', async () => {
  await using box = await opened()
  const { jobs } = box
  const acked = await claimOne(jobs)
  const nacked = await claimOne(jobs)
  box.pass(5_000)
  await jobs.ack(acked, { ranMs: 1_200 })
  await jobs.nack(nacked, { ranMs: 300, dead: true })
  assert.equal((await jobs.find(acked.id))?.startedAt, box.now() - 1_200)
  assert.equal((await jobs.find(nacked.id))?.startedAt, box.now() - 300)
  for (const ranMs of [-1, 1.5, Number.NaN, '5', 31_557_600_001] as never[]) {
    const job = { id: 'a', token: 'b' }
    await assert.rejects(jobs.ack(job, { ranMs }), { code: 'invalid_argument', message: /^ack\.ranMs/ })
    await assert.rejects(jobs.nack(job, { ranMs }), { code: 'invalid_argument', message: /^nack\.ranMs/ })
  }
})

test('a failed job with a cancellation request ends cancelled, whatever else the nack says', async () => {
  await using box = await opened()
  const { jobs } = box
  const ways = [{}, { dead: true }, { handBack: true }, { retryInMs: 5 }]
  for (const maxAttempts of [1, 5]) {
    for (const options of ways) {
      for (const kept of ['all of it', 'id and token'] as const) {
        const job = await claimOne(jobs, { maxAttempts })
        await jobs.cancel(job.id)
        const held = kept === 'all of it' ? job : { id: job.id, token: job.token }
        await jobs.nack(held, options)
        const story = `${maxAttempts} ${JSON.stringify(options)} ${kept}`
        assert.equal((await jobs.find(job.id))?.state, 'cancelled', story)
      }
    }
  }
})

test('jobs that do not run are removed, and an invalid list of ids is refused', async () => {
  await using box = await opened()
  const { jobs } = box
  const running = await claimOne(jobs)
  const { id } = await jobs.add('mail', {})
  assert.deepEqual(await jobs.remove([running.id, id, 'unknown']), { removed: [id] })
  assert.equal(await jobs.find(id), undefined)
  const tooMany = Array.from({ length: 1_001 }, () => id)
  for (const ids of [id, [''], [7], tooMany, undefined] as never[]) {
    await assert.rejects(jobs.remove(ids), { code: 'invalid_argument', message: /^remove/ })
  }
})

test('a caller that kept only id and token learns that the job was cancelled', async () => {
  await using box = await opened()
  const { jobs } = box
  const job = await claimOne(jobs)
  await jobs.cancel(job.id)
  assert.deepEqual(await jobs.nack({ id: job.id, token: job.token }, { error: 'stopped' }), {
    state: 'cancelled',
  })
  assert.equal((await jobs.find(job.id))?.error?.message, 'stopped')
})

test('a repeated ack with one key gets its first answer, also when the job was pruned', async () => {
  await using box = await opened()
  const { memory, jobs } = box
  const { id, token } = await claimOne(jobs)
  const key = { caller: 'me', key: 'k', fingerprint: 'f', keepMs: 60_000 }
  const keyed = () => createJobs({ store: memory.keyed(key).jobs, notifier: memory.notifier, beside: jobs })
  assert.deepEqual(await keyed().ack({ id, token }), { state: 'completed' })
  box.pass(10)
  assert.deepEqual(await jobs.prune({ olderThanMs: 0 }), { pruned: 1 })
  assert.deepEqual(await keyed().ack({ id, token }), { state: 'completed' })
  await assert.rejects(jobs.ack({ id, token }), { code: 'lease_lost' })
})

test('a longer-lived service wakes workers for delayed jobs of another service on the store', async () => {
  await using memory = await openMemory({ namespace: 'n', migrate: true })
  const jobs = createJobs({ store: memory.jobs, notifier: memory.notifier })
  const woken = new Promise<void>((resolve) => memory.notifier.listen(['jobs:default'], resolve))
  const brief = createJobs({ store: memory.jobs, notifier: memory.notifier, beside: jobs })
  await brief.add('mail', {}, { delayMs: 20 })
  await brief[Symbol.asyncDispose]()
  await woken

  const heard: string[] = []
  await brief.add('mail', {}, { delayMs: 20 })
  memory.notifier.listen(['jobs:default'], () => heard.push('late'))
  await jobs[Symbol.asyncDispose]()
  await new Promise((resolve) => setTimeout(resolve, 60))
  assert.deepEqual(heard, [])
})
