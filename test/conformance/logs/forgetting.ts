import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createId } from '../../../src/core/ids.ts'
import type { Stores } from '../../../src/storage/backend.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { longMs, until } from '../jobs/making.ts'
import { anUpdate, infos } from './making.ts'

/** The logs of a job are deleted once nothing was added for long enough. */
export function forgettingContract({ open }: Candidate): void {
  test('log lines and progress of a job are deleted together, long after the last addition', async () => {
    await using backend = await open()
    const other = backend.within(aNamespace())
    const jobIds = [createId(), createId()]
    for (const jobId of jobIds) {
      await backend.logs.add([
        anUpdate(jobId, { progress: '1', logs: infos('a') }),
        anUpdate(jobId, { attempt: 2, logs: infos('b') }),
      ])
    }
    await other.logs.add([anUpdate(jobIds[0]!, { progress: '1' })])
    assert.equal(await backend.logs.prune({ olderThanMs: longMs, limit: 10 }), 0)
    assert.equal(await pruneAll(backend, 2), 2)
    for (const jobId of jobIds) assert.deepEqual(await backend.logs.logs(jobId, { limit: 10 }), [])
    assert.deepEqual(await backend.logs.progress(jobIds), [])
    assert.equal((await other.logs.progress(jobIds)).length, 1)
    // Log lines after the pruning start from number 1.
    await backend.logs.add([anUpdate(jobIds[0]!, { logs: infos('again') })])
    assert.equal((await backend.logs.logs(jobIds[0]!, { limit: 10 }))[0]?.number, 1)
  })

  test('a job that still logs keeps the log lines of its earlier attempts', async () => {
    await using backend = await open()
    const readClock = async () => (await backend.schedules.nextDue()).now
    const tryOnce = async (): Promise<boolean> => {
      const [silent, speaking] = [createId(), createId()]
      await backend.logs.add([silent, speaking].map((jobId) => anUpdate(jobId, { logs: infos('early') })))
      const [early] = await backend.logs.logs(silent, { limit: 1 })
      await until('time passes', async () => (await readClock()) > early!.at + 200)
      await backend.logs.add([anUpdate(speaking, { attempt: 2, progress: '1' })])
      const [late] = await backend.logs.progress([speaking])
      // Early log lines are just old enough now; later ones are not for some time.
      const olderThanMs = (await readClock()) - early!.at - 1
      const pruned = await backend.logs.prune({ olderThanMs, limit: 10 })
      if ((await readClock()) - olderThanMs > late!.at) return false
      assert.equal(pruned, 1)
      assert.deepEqual(await backend.logs.logs(silent, { limit: 10 }), [])
      assert.equal((await backend.logs.logs(speaking, { limit: 10 })).length, 1)
      return true
    }
    await until('the machine is quick enough once', tryOnce, 30_000)
  }, 35_000)

  test('pruning deletes the logs of at most as many jobs as asked for, the longest silent first', async () => {
    await using backend = await open()
    const jobIds = [createId(), createId(), createId()]
    for (const jobId of jobIds.toReversed()) {
      const before = (await backend.schedules.nextDue()).now
      await backend.logs.add([anUpdate(jobId, { progress: '1' })])
      await until('the clock moves on', async () => (await backend.schedules.nextDue()).now > before + 1)
    }
    assert.equal(await pruneAll(backend, 1, 1), 1)
    assert.equal((await backend.logs.progress(jobIds.slice(0, 2))).length, 2)
    assert.deepEqual(await backend.logs.progress(jobIds.slice(2)), [])
  })
}

/** Prunes log lines from before now, in calls of up to `limit`, until `count` are gone. */
async function pruneAll({ logs }: Stores, count: number, limit = 10): Promise<number> {
  let pruned = 0
  await until('they are forgotten', async () => {
    pruned += await logs.prune({ olderThanMs: 0, limit })
    return pruned >= count
  })
  return pruned
}
