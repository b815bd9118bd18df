/**
 * Jobs that are added by the clock: a cron line in a time zone, and a fixed rate. The store keeps them, and every box
 * with a worker looks after them; whichever comes first adds the job, and the others find that it has been done. So each
 * slot runs once, however many processes there are and whichever of them dies.
 *
 * Run it: npx node --conditions=source examples/schedule.ts
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isSignalboxError, open } from 'signalbox'

const folder = await mkdtemp(join(tmpdir(), 'signalbox-schedule-'))
const url = `sqlite:${join(folder, 'signalbox.db')}` as const
const beats: number[] = []
const enough = Promise.withResolvers<void>()

// Three boxes on one file, as three processes would have it; each with a worker.
const boxes = await Promise.all([open(url), open(url), open(url)])
for (const box of boxes) {
  const worker = box.jobs.worker({
    handlers: {
      beat(job) {
        beats.push(job.runAt)
        if (beats.length >= 4) enough.resolve()
      },
      report: (job) => console.log('report for', job.payload),
    },
  })
  await worker.start()
}

// Every program says at its start what it wants; said again it changes nothing.
for (const { jobs } of boxes) {
  await jobs.schedules.set('heartbeat', { everyMs: 500, catchUp: 'all', job: { kind: 'beat' } })
  await jobs.schedules.set('morning report', {
    cron: '0 9 * * 1-5',
    timeZone: 'Asia/Shanghai',
    job: { kind: 'report', payload: { to: 'team' } },
  })
}

const { schedules } = boxes[0].jobs
for (const { name, nextAt } of (await schedules.list()).items)
  console.log(`${name} runs next at ${new Date(nextAt!).toISOString()}`)

// A line that never runs is refused where it is written, with its place.
await assert.rejects(
  schedules.set('never', { cron: '0 0 30 2 *', job: { kind: 'report' } }),
  (error) => isSignalboxError(error, 'invalid_argument') && error.details.field === 'day of the month',
)

await schedules.run('morning report') // out of turn; Monday nine o'clock stays
await enough.promise
await schedules.pause('heartbeat')

const slots = beats.slice(0, 4).sort((a, b) => a - b)
console.log(
  'heartbeats:',
  slots.map((slot) => new Date(slot).toISOString()),
)
// Whole multiples of the rate apart, and none twice, though three boxes looked after them.
assert.equal(new Set(slots).size, 4)
for (const slot of slots) assert.equal((slot - slots[0]!) % 500, 0)

for (const box of boxes) await box.close()
await rm(folder, { recursive: true })
