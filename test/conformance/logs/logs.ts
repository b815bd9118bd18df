import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createId } from '../../../src/core/ids.ts'
import { logLimits } from '../../../src/jobs/logs/log-store.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { addOne, endedJob } from '../jobs/making.ts'
import { anUpdate, infos } from './making.ts'

const all = { limit: 10_000 }
const { maxLines, maxLineBytes } = logLimits

/** Log lines keep their order of arrival, numbered by attempt. Dropped log lines are counted. */
export function linesContract({ lend, open, isShared }: Candidate): void {
  test('log lines are numbered by attempt in order of arrival, with level, text and time', async () => {
    await using backend = await open()
    const jobId = createId()
    const odd = [`it's "odd" \\ $1 ? :x %s -- ;`, '', ' spaces ', '火车 🚂\n\tке́й \u2028']
    await backend.logs.add([
      anUpdate(jobId, { attempt: 2, logs: [{ level: 'error', text: 'second' }] }),
      anUpdate(jobId, { logs: infos(...odd) }),
    ])
    await backend.logs.add([anUpdate(jobId, { progress: '1', logs: [{ level: 'warn', text: 'last' }] })])
    const found = await backend.logs.logs(jobId, all)
    assert.deepEqual(
      found.map(({ at: _, ...line }) => line),
      [
        ...odd.map((text, i) => ({ attempt: 1, number: i + 1, level: 'info', text })),
        { attempt: 1, number: 5, level: 'warn', text: 'last' },
        { attempt: 2, number: 1, level: 'error', text: 'second' },
      ],
    )
    for (const { at } of found) assert.ok(Number.isSafeInteger(at) && Math.abs(at - Date.now()) < 60_000)
    assert.deepEqual(await backend.logs.logs('unknown', all), [])
    assert.deepEqual(await backend.within(aNamespace()).logs.logs(jobId, all), [])
  })

  test('log lines are read page by page, from one attempt to the next', async () => {
    await using backend = await open()
    const jobId = createId()
    await backend.logs.add(
      [1, 2, 10].map((attempt) => anUpdate(jobId, { attempt, logs: infos('a', 'b', 'c') })),
    )
    const whole = await backend.logs.logs(jobId, all)
    assert.equal(whole.length, 9)
    for (const limit of [1, 2, 4]) {
      const read = await backend.logs.logs(jobId, { limit }).then((page) => [...page])
      for (let last = read.at(-1); last; ) {
        const { attempt, number } = last
        const page = await backend.logs.logs(jobId, { limit, after: { attempt, number } })
        assert.ok(page.length <= limit)
        read.push(...page)
        last = page.at(-1)
      }
      assert.deepEqual(read, whole)
    }
    // Also from a position without a log line.
    const after = await backend.logs.logs(jobId, { limit: 1, after: { attempt: 2, number: 99 } })
    assert.deepEqual([after[0]?.attempt, after[0]?.number], [10, 1])
  })

  test('log lines beyond the limit of an attempt are dropped, and the last line says how many', async () => {
    await using backend = await open()
    const jobId = createId()
    const many = (count: number) => infos(...Array.from({ length: count }, (_, i) => `line ${i}`))
    await backend.logs.add([anUpdate(jobId, { logs: many(maxLines - 1) })])
    await backend.logs.add([anUpdate(jobId, { logs: many(1) })])
    assert.equal((await backend.logs.logs(jobId, all)).length, maxLines)
    for (const dropped of [1, 4]) {
      await backend.logs.add([anUpdate(jobId, { logs: many(dropped === 1 ? 1 : 3) })])
      const found = await backend.logs.logs(jobId, all)
      assert.equal(found.length, maxLines + 1)
      const { number, level, text } = found.at(-1)!
      assert.deepEqual([number, level], [maxLines + 1, 'warn'])
      assert.match(text, new RegExp(`^${dropped} lines? (was|were) dropped`))
    }
    // Another attempt has a new limit.
    await backend.logs.add([anUpdate(jobId, { attempt: 2, logs: infos('afresh') })])
    assert.equal((await backend.logs.logs(jobId, all)).at(-1)?.text, 'afresh')
  })

  test('log lines beyond the byte limit of an attempt are dropped, also shorter ones that follow', async () => {
    await using backend = await open()
    const jobId = createId()
    const train = '🚂'.repeat(maxLineBytes / 8)
    await backend.logs.add([anUpdate(jobId, { logs: infos(train) })])
    await backend.logs.add([anUpdate(jobId, { logs: infos(`${train}!`, 'short') })])
    await backend.logs.add([anUpdate(jobId, { logs: infos('shorter') })])
    const [first, last, ...more] = await backend.logs.logs(jobId, all)
    assert.deepEqual([first?.text, last?.number, more], [train, 2, []])
    assert.match(last!.text, /^3 lines were dropped/)

    const exact = createId()
    await backend.logs.add([anUpdate(exact, { logs: infos(train, train, '') })])
    assert.deepEqual(
      (await backend.logs.logs(exact, all)).map(({ text }) => text),
      [train, train, ''],
    )
  })

  test('a retried job has space for new log lines, whatever its earlier attempts logged', async () => {
    await using backend = await open()
    const many = infos(...Array.from({ length: maxLines + 1 }, (_, i) => `line ${i}`))
    const large = infos('x'.repeat(maxLineBytes / 2 + 1))
    const begun = [
      { add: () => addOne(backend), again: (id: string) => backend.jobs.retry(id) },
      { add: () => endedJob(backend, 'completed'), again: (id: string) => backend.jobs.retry(id) },
      { add: () => endedJob(backend, 'dead'), again: () => backend.jobs.retryDead({ limit: 10 }) },
    ]
    for (const { add, again } of begun) {
      const jobId = await add()
      await backend.logs.add([
        anUpdate(jobId, { logs: many }),
        anUpdate(jobId, { attempt: 2, logs: infos('a few') }),
        anUpdate(jobId, { attempt: 3, logs: large }),
      ])
      await again(jobId)
      await backend.logs.add([anUpdate(jobId, { logs: infos('anew') })])
      const found = await backend.logs.logs(jobId, all)
      assert.deepEqual(
        found.map(({ attempt, number, text }) => [attempt, number, text]),
        [
          [1, 1, 'anew'],
          [2, 1, 'a few'],
        ],
      )
      // Not within reach of the next one.
      assert.deepEqual(await backend.jobs.remove([jobId]), [jobId])
    }
  })

  test('callers that add to one attempt at once lose no log line and use no number twice', async () => {
    const namespace = aNamespace()
    await using one = await lend(namespace)
    await using other = isShared ? await lend(namespace) : one
    const jobId = createId()
    await Promise.all(
      Array.from({ length: 16 }, (_, i) => {
        const logs = infos(...Array.from({ length: 5 }, (_, j) => `${i}.${j}`))
        return (i % 2 === 0 ? one : other).logs.add([anUpdate(jobId, { progress: `${i}`, logs })])
      }),
    )
    const found = await one.logs.logs(jobId, all)
    assert.deepEqual(
      found.map(({ number }) => number),
      Array.from({ length: 80 }, (_, i) => i + 1),
    )
    for (let i = 0; i < 16; i++) {
      const own = found.filter(({ text }) => text.startsWith(`${i}.`))
      assert.deepEqual(
        own.map(({ text }) => text),
        Array.from({ length: 5 }, (_, j) => `${i}.${j}`),
      )
      assert.equal(own.at(-1)!.number - own[0]!.number, 4, 'log lines of one call stand together')
    }
  })
}
