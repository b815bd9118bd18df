import assert from 'node:assert/strict'
import { test } from 'vitest'
import { openMemory } from '../storage/memory/index.ts'
import { type AuditAct, createAudit } from './index.ts'

async function stage() {
  const { audit: store } = await openMemory({ namespace: 'default', migrate: true })
  return createAudit({ store })
}

const act: AuditAct = {
  actor: { id: 'library', name: null },
  action: 'queue.pause',
  target: { queue: 'mail' },
}

test('entries are listed newest first, and as done unless they say otherwise', async () => {
  const audit = await stage()
  await audit.record(act)
  await audit.record({ ...act, outcome: 'refused', code: 'not_found' })
  const { items, cursor } = await audit.list()
  assert.deepEqual(
    items.map(({ id: _, at: __, ...entry }) => entry),
    [
      { ...act, outcome: 'refused', code: 'not_found' },
      { ...act, outcome: 'done', code: null },
    ],
  )
  assert.equal(cursor, null)
  assert.ok(items[0]!.id > items[1]!.id)
})

test('a page that is exactly full has no next page', async () => {
  const audit = await stage()
  for (const queue of ['a', 'b', 'c', 'd']) await audit.record({ ...act, target: { queue } })
  const first = await audit.list({ limit: 2 })
  const last = await audit.list({ limit: 2, cursor: first.cursor! })
  assert.deepEqual(
    [...first.items, ...last.items].map(({ target }) => target.queue),
    ['d', 'c', 'b', 'a'],
  )
  assert.equal(last.cursor, null)
})

test('an invalid entry is refused, and nothing is written', async () => {
  const audit = await stage()
  const wrong: readonly object[] = [
    { ...act, payload: {} },
    { ...act, actor: { id: '', name: null } },
    { ...act, actor: undefined },
    { ...act, action: 'a\nb' },
    { ...act, outcome: 'perhaps' },
    { ...act, target: { queue: { name: 'mail' } } },
    { ...act, target: { count: Number.NaN } },
    { ...act, target: null },
    { ...act, target: { resource: 'x'.repeat(20_000) } },
  ]
  for (const one of wrong)
    await assert.rejects(audit.record(one as AuditAct), { code: 'invalid_argument' }, JSON.stringify(one))
  for (const options of [{ limit: 0 }, { limit: 501 }, { actor: '' }, { cursor: '' }, { before: 'x' }])
    await assert.rejects(audit.list(options as object), { code: 'invalid_argument' }, JSON.stringify(options))
  assert.deepEqual(await audit.list(), { items: [], cursor: null })
})
