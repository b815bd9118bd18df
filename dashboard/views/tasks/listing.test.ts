import assert from 'node:assert/strict'
import { test } from 'vitest'
import { mergePages } from './listing.ts'

const page = (ids: string, cursor: string | null) => ({ items: [...ids].map((id) => ({ id })), cursor })

test('two lists that both end are one, the newest first, each once', () => {
  assert.deepEqual(mergePages([page('fdb', null), page('eda', null)]), {
    ids: ['f', 'e', 'd', 'b', 'a'],
    cursor: null,
  })
})

test('where one list goes on, the page ends there, and the next begins there', () => {
  assert.deepEqual(mergePages([page('fe', 'e'), page('gba', null)]), { ids: ['g', 'f', 'e'], cursor: 'e' })
  assert.deepEqual(mergePages([page('fe', 'e'), page('gb', 'b')]), { ids: ['g', 'f', 'e'], cursor: 'e' })
})
