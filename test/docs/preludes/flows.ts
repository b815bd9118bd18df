import assert from 'node:assert/strict'
import { box } from '../box.ts'
import { complete } from '../handlerjob.ts'
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

check('After others', async () => {
  const [archive] = (await box.jobs.list({ kind: 'archive' })).items
  assert.equal(archive?.state, 'waiting')
})
check('One call, one graph', async () => {
  const [whole] = (await box.jobs.list({ kind: 'join', limit: 1 })).items
  const needs = (await box.jobs.find(whole!.id))?.needs
  assert.equal(needs?.length, 2)
})
check('When one fails', async () => {
  const [clean] = (await box.jobs.list({ kind: 'clean' })).items
  assert.equal((await box.jobs.find(clean!.id))?.needs?.length, 3)
})
check('Looking at the graph', ({ values: { job } }) => {
  assert.deepEqual(
    job.needs,
    [one, two].map((need) => ({ id: need, state: 'ready', isMet: false })),
  )
  assert.deepEqual(job.neededBy, [])
})
check('Waiting for a lock', async ({ values: { worker } }) => {
  await complete(worker, 1)
  assert.equal(pushed[0], 'app:1.2')
  assert.equal(typeof pushed[1], 'number')
})
