/** What handlers say of their jobs, on its way to the store. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import { within } from '../../../test/support/deadline.ts'
import { open } from '../../index.ts'
import { openMemory } from '../../storage/memory/index.ts'
import { decodeProgress, progressLimits } from './job-logs.ts'
import { logLimits } from './log-store.ts'
import { type AttemptLogUpdate, createLogWriter, type LogOwner } from './log-writer.ts'

const owner: LogOwner = { jobId: 'a', token: 't', attempt: 1 }

function aStore(): {
  readonly updates: AttemptLogUpdate[]
  isDown: boolean
  add(updates: readonly AttemptLogUpdate[]): Promise<void>
} {
  return {
    updates: [],
    isDown: false,
    async add(updates) {
      if (this.isDown) throw new Error('down')
      this.updates.push(...updates)
    },
  }
}

const unheard = (): undefined => undefined

test('quick updates share one write, with only the latest progress', async () => {
  const store = aStore()
  const writer = createLogWriter(store, unheard)
  const log = writer.open(owner)
  for (let percent = 0; percent <= 50; percent++) writer.progress(log, percent)
  writer.line(log, 'one', 'info')
  writer.progress(log, { note: 'halfway' })
  writer.line(log, 'two', 'error')
  assert.equal(store.updates.length, 0)
  await writer.idle(5_000)
  const [note] = store.updates
  assert.equal(store.updates.length, 1)
  assert.deepEqual(decodeProgress(note!.progress!), { percent: 50, note: 'halfway', data: null })
  assert.deepEqual(note!.logs, [
    { level: 'info', text: 'one' },
    { level: 'error', text: 'two' },
  ])
  // It goes by itself, too, and nothing that was said before is said again.
  writer.progress(log, { data: { row: 7 } })
  await within(
    5_000,
    'it was written',
    waitFor(() => store.updates.length === 2),
  )
  assert.deepEqual(decodeProgress(store.updates[1]!.progress!), {
    percent: 50,
    note: 'halfway',
    data: { row: 7 },
  })
  assert.deepEqual(store.updates[1]!.logs, [])
})

test('no update throws, and a value that cannot be stored is left out', async () => {
  const store = aStore()
  const writer = createLogWriter(store, unheard)
  const log = writer.open(owner)
  const loop: { self?: unknown } = {}
  loop.self = loop
  const hostile = {
    get percent(): number {
      throw new Error('no')
    },
  }
  for (const update of [Number.NaN, null, 'half', hostile, { data: loop }, { data: 1n }, undefined, []])
    writer.progress(log, update)
  writer.progress(log, { percent: 170, note: `a\0b\ud800 ${'x'.repeat(1_000)}`, data: 'x'.repeat(20_000) })
  const unprintable = { toString: () => 5 as unknown as string, valueOf: () => ({}) }
  for (const text of [undefined, null, Symbol('s'), unprintable, 'y'.repeat(100_000)])
    writer.line(log, text, 'loud')
  await writer.idle(5_000)
  const [{ progress, logs }] = store.updates as [AttemptLogUpdate]
  const said = decodeProgress(progress!)
  assert.deepEqual([said.percent, said.data], [100, null])
  assert.deepEqual(
    [said.note?.slice(0, 5), said.note?.length],
    ['a\ufffdb\ufffd ', progressLimits.maxNoteChars],
  )
  assert.deepEqual(
    logs.map(({ level, text }) => [level, text.length <= progressLimits.maxLineChars]),
    Array.from({ length: 5 }, () => ['info', true]),
  )
})

test('log lines beyond the limit of an attempt are counted and not sent', async () => {
  const memory = await openMemory({ namespace: 'test', migrate: true })
  let most = 0
  const writer = createLogWriter(
    {
      add: (updates) => {
        most = Math.max(
          most,
          ...updates.map(({ logs }) => logs.reduce((sum, { text }) => sum + text.length, 0)),
        )
        return memory.logs.add(updates)
      },
    },
    unheard,
  )
  const log = writer.open(owner)
  for (let line = 0; line < logLimits.maxLines + 900; line++) writer.line(log, `line ${line}`, 'info')
  writer.close(log)
  writer.line(log, 'too late', 'info')
  await writer.idle(5_000)
  const kept = await memory.logs.logs('a', { limit: 1_000 })
  assert.equal(kept.length, logLimits.maxLines + 1)
  assert.match(kept.at(-1)!.text, /^900 lines were dropped/)
  assert.ok(most < 2 * logLimits.maxLineBytes)
  await memory.close()
})

test('while the store is away updates wait, in order and within limits; of ended attempts only for a while', async () => {
  const store = aStore()
  store.isDown = true
  let failures = 0
  const writer = createLogWriter(store, () => failures++)
  const log = writer.open(owner)
  writer.line(log, 'before', 'info')
  writer.progress(log, 10)
  await writer.idle(1)
  await within(
    5_000,
    'it was tried',
    waitFor(() => failures > 0),
  )
  writer.line(log, 'after', 'info')
  writer.progress(log, 20)
  writer.close(log)
  // Logs of running attempts are muted, each with a line that says so.
  const pages = Array.from({ length: 150 }, (_, id) => writer.open({ ...owner, jobId: `b${id}` }))
  for (const other of pages)
    for (let line = 0; line < 20; line++) writer.line(other, 'z'.repeat(4_096), 'info')
  store.isDown = false
  await writer.idle(10_000)
  const [note] = store.updates.filter(({ jobId }) => jobId === 'a')
  assert.deepEqual(
    note!.logs.map(({ text }) => text),
    ['before', 'after'],
  )
  assert.equal(decodeProgress(note!.progress!).percent, 20)
  const bytes = store.updates.flatMap(({ logs }) => logs).reduce((sum, { text }) => sum + text.length, 0)
  assert.ok(bytes < 9 * 1_048_576, `${bytes} bytes were carried`)
  assert.ok(store.updates.some(({ logs }) => /did not keep up/.test(logs.at(-1)?.text ?? '')))
})

test('while the store is away, updates of ended attempts are dropped from the oldest on', async () => {
  const store = aStore()
  const writer = createLogWriter(store, unheard)
  const count = 6_000
  for (let at = 0; at < count; at++) {
    const log = writer.open({ jobId: `${at}`, token: 't', attempt: 1 })
    writer.progress(log, { data: at })
    writer.close(log)
  }
  await within(10_000, 'all were written', writer.idle(10_000))
  const kept = store.updates.map(({ jobId }) => Number(jobId))
  assert.equal(kept.length, 5_000)
  assert.deepEqual([kept[0], kept.at(-1)], [count - 5_000, count - 1])
})

test('a handler’s log lines are stored with its end, by attempt, and are deleted with old jobs', async () => {
  await using box = await open('memory:')
  const { id } = await box.jobs.add('work', null, { backoff: { baseMs: 0 } })
  const { promise: done, resolve } = Promise.withResolvers<void>()
  const worker = box.jobs.worker({
    pollMs: 20,
    handlers: {
      work(job) {
        job.log(`try ${job.attempt}`, job.attempt === 1 ? { level: 'warn' } : {})
        job.progress({ percent: job.attempt * 30, note: 'working', data: { row: job.attempt } })
        if (job.attempt === 1) throw new Error('again')
      },
    },
  })
  worker.on('completed', () => resolve())
  await worker.start()
  await within(5_000, 'it was done', done)
  const found = await box.jobs.find(id)
  const { at, ...progress } = found!.progress!
  assert.deepEqual(progress, { percent: 60, note: 'working', data: { row: 2 }, attempt: 2 })
  assert.ok(at >= found!.createdAt)
  const first = await box.jobs.logs(id, { limit: 1 })
  const rest = await box.jobs.logs(id, { cursor: first.cursor })
  assert.deepEqual(
    [...first.items, ...rest.items].map(({ attempt, number, level, text }) => [attempt, number, level, text]),
    [
      [1, 1, 'warn', 'try 1'],
      [2, 1, 'info', 'try 2'],
    ],
  )
  assert.equal(rest.cursor, null)
  await assert.rejects(box.jobs.logs(id, { cursor: 'x' }), { code: 'invalid_argument' })
  await worker.stop()
  await box.jobs.retry(id)
  assert.equal((await box.jobs.find(id))?.progress, null, 'what was said before it was begun anew')
  for (const said of [null, 5, null]) {
    await new Promise((later) => setTimeout(later, 2))
    const [job] = await box.jobs.claim()
    if (said !== null) await box.jobs.note(job!, { progress: said })
    assert.equal(
      (await box.jobs.find(id))?.progress?.percent,
      said ?? undefined,
      `of attempt ${job?.attempt}`,
    )
    await box.jobs.nack(job!, { error: 'again', dead: true })
    await box.jobs.retry(id)
  }
  await box.jobs.cancel(id)
  await new Promise((later) => setTimeout(later, 2))
  assert.deepEqual(await box.jobs.prune({ olderThanMs: 0 }), { pruned: 1 })
  assert.deepEqual((await box.jobs.logs(id)).items, [])
})

test('a caller that claimed by hand adds log lines with its token, and only then', async () => {
  await using box = await open('memory:')
  const { id } = await box.jobs.add('work')
  const [job] = await box.jobs.claim()
  await box.jobs.note(job!, { progress: 40, logs: [{ text: 'by hand' }] })
  assert.equal((await box.jobs.find(id))?.progress?.percent, 40)
  await assert.rejects(box.jobs.note({ id, token: '1.no' }, { progress: 50 }), { code: 'lease_lost' })
  await box.jobs.ack(job!)
  // The last lines of an ended attempt need its number.
  await box.jobs.note(job!, { logs: [{ text: 'last', level: 'error' }] })
  await assert.rejects(box.jobs.note({ id, token: job!.token }, { progress: 50 }), { code: 'lease_lost' })
  const { items } = await box.jobs.logs(id)
  assert.deepEqual(
    items.map(({ text, level }) => [text, level]),
    [
      ['by hand', 'info'],
      ['last', 'error'],
    ],
  )
})

test('a retried job shows its present progress, not its earlier one', async () => {
  await using box = await open('memory:')
  const { id } = await box.jobs.add('work', null, { maxAttempts: 3 })
  const say = async (percent: number) => {
    const [job] = await box.jobs.claim()
    await box.jobs.note(job!, { progress: percent })
    return job!
  }
  for (const percent of [50, 60]) await box.jobs.nack(await say(percent), { retryInMs: 0 })
  await box.jobs.ack(await say(90))
  assert.equal((await box.jobs.find(id))?.progress?.percent, 90)
  const { at } = (await box.jobs.find(id))!.progress!
  await waitFor(() => Date.now() > at)
  await box.jobs.retry(id)
  await say(10)
  const { percent, attempt } = (await box.jobs.find(id))!.progress!
  assert.deepEqual([percent, attempt], [10, 1])
})

test('last log lines of an attempt without a number are refused', async () => {
  await using box = await open('memory:')
  await box.jobs.add('work')
  const [job] = await box.jobs.claim()
  await box.jobs.ack(job!)
  for (const attempt of ['1', 0, 1.5, Number.NaN])
    await assert.rejects(box.jobs.note({ ...job!, attempt: attempt as number }, { progress: 1 }), {
      code: 'invalid_argument',
    })
})

async function waitFor(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((later) => setTimeout(later, 5))
}
