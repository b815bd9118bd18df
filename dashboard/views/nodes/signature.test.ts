import assert from 'node:assert/strict'
import { test } from 'vitest'
import { signatureParts } from './signature.ts'

test('a signature is read as services with their tags, and labels', () => {
  assert.deepEqual(
    signatureParts('[["asr",[["language",["en","zh"]]]],["nmt",[]]]{"region":"eu","memoryGb":48}'),
    {
      services: [
        ['asr', 'language: en, zh'],
        ['nmt', ''],
      ],
      labels: [
        ['region', 'eu'],
        ['memoryGb', '48'],
      ],
    },
  )
})

test('names that contain the separator are read correctly, and other texts are no signature', () => {
  assert.deepEqual(signatureParts('[["]{",[]]]{"a]{":"x"}'), {
    services: [[']{', '']],
    labels: [['a]{', 'x']],
  })
  assert.equal(signatureParts('something else ]{'), undefined)
})
