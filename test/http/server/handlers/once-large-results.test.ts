import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { test } from 'vitest'
import { serving } from '../stage.ts'

test('stored results are returned through a server, however large they are together', async () => {
  await using stage = await serving()
  await using remote = await open(stage.url as 'http://x')
  const keys = Array.from({ length: 40 }, (_, number) => `report ${number}`)
  const result = (key: string) => `${key}: ${'x'.repeat(262_000)}`
  for (const key of keys) await stage.box.once.run(key, () => result(key))

  const claims = await remote.once.claimMany([...keys, 'new'])

  assert.deepEqual(
    claims.map(({ status }) => status),
    [...keys.map(() => 'done'), 'run'],
  )
  for (const [index, key] of keys.entries()) {
    const claim = claims[index]!
    assert.ok(claim.status === 'done' && claim.result === result(key), key)
  }
})
