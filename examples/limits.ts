/**
 * Many tenants, one queue, one provider that takes only so much. The queue has limits: of each tenant two at once, of all
 * together six, and never more than ten starts in half a second. The store counts when it hands jobs out, so the limits
 * hold over all processes, and a tenant with a mountain of jobs does not stand in the way of the others.
 *
 * Run it: npx node --conditions=source examples/limits.ts
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isSignalboxError, open } from 'signalbox'

const folder = await mkdtemp(join(tmpdir(), 'signalbox-limits-'))
const url = `sqlite:${join(folder, 'signalbox.db')}` as const
const rate = { count: 10, perMs: 500 }

// Three boxes on one file, as three processes would have it; each with a worker that could do ten at once.
const boxes = await Promise.all([open(url), open(url), open(url)])
const { jobs } = boxes[0]
await jobs.setLimits('mail', { concurrency: 6, rate, perKey: { concurrency: 2 } })

// A limit of 0 would hold everything up for ever, so it is no limit.
await assert.rejects(jobs.setLimits('mail', { concurrency: 0 }), (error) =>
  isSignalboxError(error, 'invalid_argument'),
)

const mail = (tenant: string, count: number) =>
  Array.from({ length: count }, (_, number) => ({
    kind: 'send',
    queue: 'mail',
    limitKey: tenant,
    payload: { tenant, number },
  }))
const all = [...mail('loud', 20), ...mail('ada', 5), ...mail('bob', 5)]
await jobs.addMany(all)

/** When each was claimed, by the store's clock, and how many of its tenant and of all ran then, itself included. */
const starts: { tenant: string; number: number; at: number; ofTenant: number; ofAll: number }[] = []
const running = new Map<string, number>()
const done = Promise.withResolvers<void>()
let left = all.length

for (const box of boxes) {
  const worker = box.jobs.worker({
    queues: ['mail'],
    concurrency: 10,
    handlers: {
      async send(job) {
        const { tenant, number } = job.payload
        running.set(tenant, (running.get(tenant) ?? 0) + 1)
        const ofAll = [...running.values()].reduce((sum, count) => sum + count, 0)
        starts.push({ tenant, number, at: job.startedAt!, ofTenant: running.get(tenant)!, ofAll })
        await sleep(40)
        running.set(tenant, running.get(tenant)! - 1)
        if (--left === 0) done.resolve()
      },
    },
  })
  await worker.start()
}
await done.promise

const first = Math.min(...starts.map(({ at }) => at))
for (const { tenant, number, at, ofTenant, ofAll } of starts)
  console.log(
    `${String(at - first).padStart(5)} ms  ${tenant} ${number}  (${ofTenant} of ${tenant}, ${ofAll} in all)`,
  )

assert.equal(starts.length, all.length)
for (const { ofTenant, ofAll } of starts) assert.ok(ofTenant <= 2 && ofAll <= 6)
for (const { at } of starts) {
  const inSpan = starts.filter((other) => other.at > at - rate.perMs && other.at <= at).length
  assert.ok(inSpan <= rate.count, `${inSpan} starts within ${rate.perMs} ms`)
}
// First come, first served within a tenant; and no tenant waited for the loud one to finish.
const turns = starts.toSorted((a, b) => a.at - b.at)
const lastOf = (tenant: string) => turns.findLastIndex((start) => start.tenant === tenant)
assert.ok(lastOf('ada') < lastOf('loud') && lastOf('bob') < lastOf('loud'))

const [line] = (await jobs.stats()).filter(({ queue }) => queue === 'mail')
console.log('limits:', line?.limits)

for (const box of boxes) await box.close()
await rm(folder, { recursive: true })
