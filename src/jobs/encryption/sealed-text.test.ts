import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'vitest'
import { createId } from '../../core/ids.ts'
import {
  encodeLost,
  encodeSealed,
  isSealed,
  openSealed,
  sealable,
  showSealed,
  whySealed,
} from './sealed-text.ts'
import { createAesSealer } from './sealer.ts'

const sealer = createAesSealer({ keys: { a: randomBytes(32) }, current: 'a' })
const [id, other] = [createId(), createId()]

function sealedFor(jobId: string): string {
  const context = { part: 'payload', queue: 'q', kind: 'mail', jobId } as const
  return encodeSealed(jobId, sealer.seal(new TextEncoder().encode('"sesame"'), context) as Uint8Array)
}

test('the reason why a payload did not open is known for every copy of its record', async () => {
  const record = { id, queue: 'q', kind: 'mail', payload: sealedFor(other), result: null }
  const opened = await openSealed(sealer, record)
  for (const copy of [opened, { ...opened, fence: 7 }]) {
    assert.equal(whySealed(copy).code, 'seal_broken')
    assert.deepEqual(showSealed(copy), { sealed: true, code: 'seal_broken' })
  }
  assert.equal(whySealed(record).code, 'payload_sealed')
  assert.deepEqual(Object.keys(opened), Object.keys(record))
})

test('only a text in the complete form of a seal is taken for one', () => {
  for (const json of [sealedFor(id), encodeLost(id), `{"$sealed":"${id}:not base64!"}`])
    assert.ok(isSealed(json), json)
  for (const json of [
    '{"$sealed":""}',
    '{"$sealed":"x"}',
    '{"$sealed":"v1:c2VjcmV0"}',
    `{"$sealed":"${id}"}`,
    `{"$sealed":"${id}:AAAA","more":1}`,
    `{"$sealed":"${id}:AAAA"} `,
    `[{"$sealed":"${id}:AAAA"}]`,
    sealable(sealedFor(id)),
  ])
    assert.ok(!isSealed(json), json)
  assert.equal(sealable('{"a":1}'), '{"a":1}')
  assert.deepEqual(JSON.parse(sealable(encodeLost(id))), JSON.parse(encodeLost(id)))
})
