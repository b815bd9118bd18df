/**
 * Cancelling a job that runs, on whatever machine: its handler's signal aborts within a second, and the job itself says
 * afterwards whether the wish was obeyed.
 *
 * Run it: npx node --conditions=source examples/cancel.ts
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Box, open } from 'signalbox'

await using box = await open('memory:')

const worker = box.jobs.worker({
  handlers: {
    // It hands its signal on to whatever takes one, and stops in the middle.
    async polite(_, { signal }) {
      for (let page = 1; page <= 1_000; page++) await sleep(20, undefined, { signal })
    },
    // It cannot stop halfway: it does all of it, and says so.
    async stubborn(_, { signal }) {
      while (!signal.aborted) await sleep(20)
      return 'done anyway'
    },
  },
})
await worker.start()

for (const kind of ['polite', 'stubborn']) {
  const { id } = await box.jobs.add(kind)
  await stateOf(box, id, 'running')
  console.log(kind, await box.jobs.cancel(id)) // { state: 'running', cancelRequested: true }
  const { state, cancelIgnored, result } = await stateOf(box, id, 'cancelled', 'completed')
  console.log(kind, { state, cancelIgnored, result })
  assert.deepEqual([state, cancelIgnored], kind === 'polite' ? ['cancelled', false] : ['completed', true])
}

async function stateOf({ jobs }: Box, id: string, ...states: string[]) {
  for (;;) {
    const job = await jobs.find(id)
    if (job !== undefined && states.includes(job.state)) return job
    await sleep(20)
  }
}
