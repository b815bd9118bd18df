import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace, type Candidate } from '../candidates.ts'
import { aJob, claim, settleOne } from '../jobs/making.ts'
import { aJobOf } from './making.ts'

/** Many claimers at once; the limits hold at every moment. */
export function crowdsContract({ lend, isShared }: Candidate): void {
  test('eight concurrent claimers together never exceed the limits', async () => {
    const namespace = aNamespace()
    await using one = await lend(namespace)
    await using two = isShared ? await lend(namespace) : one
    const most = { all: 4, each: 2 }
    await one.jobs.setLimits('mail', {
      ...{ concurrency: most.all, rate: null },
      perKey: { concurrency: most.each, rate: null },
    })
    const keys = ['a', 'b', 'c', null]
    const jobs = Array.from({ length: 64 }, (_, at) => keys[at % 4] ?? null).map((key) =>
      key === null ? aJob() : aJobOf(key),
    )
    await one.jobs.add(jobs)

    /** Counted from after the claim until before the end, so never more than the store counts. */
    const now = new Map<string | null, number>()
    const peak = { all: 0, each: 0 }
    let running = 0
    let ended = 0
    const work = async (backend: typeof one) => {
      while (ended < jobs.length) {
        await new Promise((resolve) => setImmediate(resolve))
        for (const job of await claim(backend, { limit: 3 })) {
          const key = job.meta
          running++
          now.set(key, (now.get(key) ?? 0) + 1)
          peak.all = Math.max(peak.all, running)
          if (key !== null) peak.each = Math.max(peak.each, now.get(key)!)
          await new Promise((resolve) => setImmediate(resolve))
          running--
          now.set(key, now.get(key)! - 1)
          assert.equal(await settleOne(backend, job), true)
          ended++
        }
      }
    }
    await Promise.all(Array.from({ length: 8 }, (_, at) => work(at % 2 === 0 ? one : two)))
    assert.ok(peak.all <= most.all && peak.each <= most.each, JSON.stringify(peak))
    assert.deepEqual(await one.jobs.list({ state: 'ready', limit: 1 }), [])
  })

  test('concurrent claimers together never exceed a rate', async () => {
    const namespace = aNamespace()
    await using one = await lend(namespace)
    await using two = isShared ? await lend(namespace) : one
    const rate = { count: 10, perMs: 3_600_000 }
    const perKey = { concurrency: null, rate: { count: 4, perMs: 3_600_000 } }
    await one.jobs.setLimits('mail', { concurrency: null, rate, perKey })
    await one.jobs.add(['a', 'b', 'c', 'd'].flatMap((key) => Array.from({ length: 10 }, () => aJobOf(key))))
    const claims = await Promise.all(
      Array.from({ length: 8 }, (_, at) => claim(at % 2 === 0 ? one : two, { limit: 3 })),
    )
    const claimed = claims.flat()
    assert.equal(claimed.length, 10)
    for (const some of Map.groupBy(claimed, ({ meta }) => meta).values()) assert.ok(some.length <= 4)
  })
}
