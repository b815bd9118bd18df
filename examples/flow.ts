/**
 * Jobs that start when others have completed. A film is cut into parts, the parts are translated side by side, and one job
 * joins them; all of it is added by one call, all or nothing. Then the same with a part that fails, and what the others do
 * about it.
 *
 * Run it: npx node --conditions=source examples/flow.ts
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Box, isSignalboxError, open } from 'signalbox'

await using box = await open('memory:')
const ran: string[] = []

const worker = box.jobs.worker({
  handlers: {
    cut: (job) => note(`cut ${job.payload.film}`),
    async translate(job) {
      const { film, part } = job.payload
      await sleep(20)
      if (part === 'scratched') throw new Error(`${film}: this part cannot be read`)
      note(`translate ${film} ${part}`)
    },
    join: (job) => note(`join ${job.payload.film}`),
    report: (job) => note(`report ${job.payload.film}`),
    clean: (job) => note(`clean ${job.payload.film}`),
  },
})
await worker.start()

/** `ref` is what others in the same list call a job. */
const filmJobs = (film: string, parts: readonly string[]) => [
  { kind: 'cut', payload: { film }, ref: 'cut' },
  ...parts.map((part) => ({
    kind: 'translate',
    payload: { film, part },
    ref: part,
    after: 'cut',
    maxAttempts: 1,
  })),
  // It is cancelled when a part fails, for it could only join what is not there.
  { kind: 'join', payload: { film }, ref: 'join', after: parts },
  // The report is for what was joined; so it goes the way of the join.
  { kind: 'report', payload: { film }, after: 'join' },
  // However the parts ended, this job cleans up.
  { kind: 'clean', payload: { film }, after: { jobs: [...parts, 'join'], onFailure: 'run' as const } },
]

const good = await box.jobs.addMany(filmJobs('Metropolis', ['one', 'two', 'three']))
await graphWhen(box, good, 'Metropolis')
assert.equal(ran[0], 'cut Metropolis')
assert.equal(ran[4], 'join Metropolis')
assert.deepEqual(ran.slice(5).sort(), ['clean Metropolis', 'report Metropolis'])

ran.length = 0
const bad = await box.jobs.addMany(filmJobs('Nosferatu', ['one', 'scratched', 'three']))
const [, , scratched, , join, report, clean] = await graphWhen(box, bad, 'Nosferatu')
assert.deepEqual(
  [scratched, join, report, clean].map((job) => job!.state),
  ['dead', 'cancelled', 'cancelled', 'completed'],
)
assert.equal(join!.error?.code, 'need_failed')
console.log(`why the join was cancelled: ${join!.error?.message}`)

// A ring could never start, so it is refused where it is written.
await assert.rejects(
  box.jobs.addMany([
    { kind: 'cut', ref: 'a', after: 'b' },
    { kind: 'cut', ref: 'b', after: 'a' },
  ]),
  (error) => isSignalboxError(error, 'invalid_argument') && /cycle/.test(error.message),
)

/** Waits until all have ended, and prints each with those it waited for and those that waited for it. */
async function graphWhen({ jobs }: Box, added: readonly { readonly id: string }[], title: string) {
  for (;;) {
    const found = await Promise.all(added.map(({ id }) => jobs.find(id)))
    if (found.every((job) => job!.finishedAt !== null)) {
      const names = new Map(found.map((job) => [job!.id, nameOf(job!)]))
      console.log(`\n${title}`)
      for (const job of found) {
        const after = job!.dependencies.map(({ id, state }) => `${names.get(id)} (${state})`)
        const before = job!.dependents.map(({ id }) => names.get(id))
        console.log(`  ${nameOf(job!)}: ${job!.state}`)
        if (after.length > 0) console.log(`    waited for  ${after.join(', ')}`)
        if (before.length > 0) console.log(`    awaited by  ${before.join(', ')}`)
      }
      return found
    }
    await sleep(20)
  }
}

function nameOf({ kind, payload }: { readonly kind: string; readonly payload: unknown }): string {
  const { part } = payload as { part?: string }
  return part === undefined ? kind : `${kind} ${part}`
}

function note(what: string): void {
  ran.push(what)
}
