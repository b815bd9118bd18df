import assert from 'node:assert/strict'
import { box } from '../box.ts'
import { complete } from '../handler-job.ts'
import { around, check } from '../prelude.ts'

export * from '../box.ts'

export const film = 'metropolis'
export let otherId: string
export let one: string
export let two: string
export let join: string
export let id: string

const pushed: unknown[] = []
export const registry: { push(image: string, how: { fence: unknown; signal: AbortSignal }): Promise<void> } =
  {
    push: async (image, { fence }) => void pushed.push(image, fence),
  }

around(async () => {
  otherId = (await box.jobs.add('other')).id
  const parts = await box.jobs.addMany([{ kind: 'translate' }, { kind: 'translate' }, { kind: 'join' }])
  ;[one, two, join] = parts.map((part) => part.id) as [string, string, string]
  id = (await box.jobs.add('sum', null, { after: [one, two] })).id
})

check('Wait for other jobs', async () => {
  const [archive] = (await box.jobs.list({ kind: 'archive' })).items
  assert.equal(archive?.state, 'waiting')
})
check('Add a whole graph', async () => {
  const [whole] = (await box.jobs.list({ kind: 'join', limit: 1 })).items
  const dependencies = (await box.jobs.find(whole!.id))?.dependencies
  assert.equal(dependencies?.length, 2)
})
check('When a dependency fails', async () => {
  const [clean] = (await box.jobs.list({ kind: 'clean' })).items
  assert.equal((await box.jobs.find(clean!.id))?.dependencies?.length, 3)
})
check('Read the graph', ({ values: { job } }) => {
  assert.deepEqual(
    job.dependencies,
    [one, two].map((dependency) => ({ id: dependency, state: 'ready', isMet: false })),
  )
  assert.deepEqual(job.dependents, [])
})
check('Waiting for a lock', async ({ values: { worker } }) => {
  await complete(worker, 1)
  assert.equal(pushed[0], 'app:1.2')
  assert.equal(typeof pushed[1], 'number')
})
