import assert from 'node:assert/strict'
import { box } from '../box.ts'
import { check } from '../prelude.ts'

export { box } from '../box.ts'

/** Two places, as the page's lane has. */
export const gpu: { acquire(): Promise<void> } = { acquire: async () => undefined }

export async function render(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 5))
}

check('Record your own waits', ({ values: { contention, kind, ticket } }) => {
  assert.ok(contention === box.contention && kind !== undefined && ticket !== undefined)
  const { kinds } = box.contention.snapshot()
  assert.equal(kinds.find((each) => each.kind === 'thumbnail')?.hold.count, 1)
})

check('The snapshot', ({ data }) => {
  const snapshot: Record<string, unknown> = { ...box.contention.snapshot() }
  assert.deepEqual(Object.keys(data).toSorted(), Object.keys(snapshot).toSorted())
  assert.deepEqual(Object.keys(data.overflow), Object.keys(snapshot.overflow as object))
  const [shown] = data.kinds
  const [kind] = snapshot.kinds as Record<string, object>[]
  assert.deepEqual(Object.keys(shown), Object.keys(kind!))
  assert.deepEqual(Object.keys(shown.wait), Object.keys(kind!.wait!))
})
