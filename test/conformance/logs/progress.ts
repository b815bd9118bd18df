import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createId } from '../../../src/core/ids.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { until } from '../jobs/making.ts'
import { anUpdate, infos } from './making.ts'

/** The latest progress of a job. */
export function progressContract({ open }: Candidate): void {
  test('new progress of an attempt replaces the earlier one, with a time from the store', async () => {
    await using backend = await open()
    const jobId = createId()
    await backend.logs.add([anUpdate(jobId, { progress: '{"done":1}' })])
    const [first] = await backend.logs.progress([jobId])
    assert.deepEqual(first, { jobId, attempt: 1, progress: '{"done":1}', at: first!.at })
    assert.ok(Number.isSafeInteger(first!.at) && Math.abs(first!.at - Date.now()) < 60_000)
    await until('the store’s clock moves on', async () => {
      await backend.logs.add([anUpdate(jobId, { progress: '{ "done": 2.0 }' })])
      const [latest, ...more] = await backend.logs.progress([jobId, jobId])
      assert.deepEqual([latest?.progress, more], ['{ "done": 2.0 }', []])
      return latest!.at > first!.at
    })
  })

  test('log lines do not change the progress or its time', async () => {
    await using backend = await open()
    const jobId = createId()
    await backend.logs.add([anUpdate(jobId, { logs: infos('begun') })])
    assert.deepEqual(await backend.logs.progress([jobId]), [])
    await backend.logs.add([anUpdate(jobId, { progress: '10' })])
    const said = await backend.logs.progress([jobId])
    await backend.logs.add([anUpdate(jobId, { logs: infos('on') }), anUpdate(jobId)])
    assert.deepEqual(await backend.logs.progress([jobId]), said)
  })

  test('the job shows its latest progress, whichever attempt reported it', async () => {
    await using backend = await open()
    const jobId = createId()
    await backend.logs.add([
      anUpdate(jobId, { attempt: 10, progress: '"ten"' }),
      anUpdate(jobId, { attempt: 9, progress: '"nine"' }),
      anUpdate(jobId, { attempt: 11, logs: infos('eleven has not begun') }),
    ])
    const [at, ...none] = await backend.logs.progress([jobId])
    // At one moment the higher attempt is the later one.
    assert.deepEqual([at?.attempt, at?.progress, none], [10, '"ten"', []])
    // A retried job counts its attempts from one again.
    await until('the store’s clock moves on', async () => {
      await backend.logs.add([anUpdate(jobId, { attempt: 1, progress: '"anew"' })])
      const [latest, ...more] = await backend.logs.progress([jobId])
      assert.deepEqual(more, [])
      return latest?.attempt === 1 && latest.progress === '"anew"' && latest.at > at!.at
    })
    await backend.logs.add([anUpdate(jobId, { attempt: 10, logs: infos('a late line') })])
    assert.equal((await backend.logs.progress([jobId]))[0]?.attempt, 1)
  })

  test('one call reads the progress of many jobs and leaves out those without any', async () => {
    await using backend = await open()
    const jobIds = Array.from({ length: 300 }, () => createId())
    await backend.logs.add(
      jobIds.map((jobId, i) => anUpdate(jobId, { progress: i % 2 === 0 ? `${i}` : null })),
    )
    const said = await backend.logs.progress(['unknown', ...jobIds])
    assert.deepEqual(
      said.map(({ progress }) => Number(progress)).sort((a, b) => a - b),
      Array.from({ length: 150 }, (_, i) => 2 * i),
    )
    assert.deepEqual(await backend.logs.progress([]), [])
    await backend.logs.add([])
  })

  test('of several progress reports in one call the last counts, each namespace on its own', async () => {
    await using backend = await open()
    const other = backend.within(aNamespace())
    const jobId = createId()
    await backend.logs.add(['1', '2', '3'].map((progress) => anUpdate(jobId, { progress })))
    await other.logs.add([anUpdate(jobId, { progress: '"🚂"' })])
    assert.equal((await backend.logs.progress([jobId]))[0]?.progress, '3')
    assert.equal((await other.logs.progress([jobId]))[0]?.progress, '"🚂"')
  })

  test('a long progress text is stored whole', async () => {
    await using backend = await open()
    const jobId = createId()
    const progress = JSON.stringify('ä🚂'.repeat(20_000))
    await backend.logs.add([anUpdate(jobId, { progress })])
    assert.equal((await backend.logs.progress([jobId]))[0]?.progress, progress)
  })
}
