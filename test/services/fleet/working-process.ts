/**
 * A library worker in a separate process. It adds jobs, runs them, and prints a line when all of them ended; then it
 * stays. `endless`: it adds a job after each completed one, until the process is killed.
 */
import { open } from '../../../src/index.ts'

const [url, namespace, mode, count] = process.argv.slice(2) as [string, string, string, string]
const box = await open(url, { namespace })
const worker = box.jobs.worker({
  workerId: mode,
  queues: [mode],
  concurrency: 5,
  pollMs: 200,
  handlers: {
    mail: async () => {
      if (mode === 'endless') {
        await new Promise((resolve) => setTimeout(resolve, 20))
        await box.jobs.add('mail', {}, { queue: mode })
      }
    },
    broken: () => {
      throw new Error('It never works.')
    },
  },
})
let ended = 0
const expected = Number(count)
const over = Promise.withResolvers<void>()
const oneEnded = () => {
  if (++ended === expected) over.resolve()
}
worker.on('completed', oneEnded)
worker.on('failed', ({ state }) => {
  if (state === 'dead') oneEnded()
})
await worker.start()
if (mode === 'endless') await box.jobs.add('mail', {}, { queue: mode })
else {
  // Each fourth fails twice and is dead then.
  const jobs = Array.from({ length: expected }, (_, nth) =>
    nth % 4 === 3
      ? { kind: 'broken', queue: mode, maxAttempts: 2, backoff: { baseMs: 1, jitter: 0 } }
      : { kind: 'mail', queue: mode },
  )
  await box.jobs.addMany(jobs)
}
await over.promise
console.log('over')
process.stdin.resume()
process.stdin.on('end', () => void box.close().then(() => process.exit(0)))
