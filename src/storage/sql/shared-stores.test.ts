import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Stores } from '../backend.ts'
import { Views } from './shared-stores.ts'

test('a namespace view that is requested again soon is the same object', () => {
  let made = 0
  const views = new Views(() => {
    made++
    return {} as Stores
  })
  const first = views.within('first')
  for (let i = 0; i < 1_000; i++) {
    views.within(`other ${i}`)
    assert.equal(views.within('first'), first)
  }
  assert.equal(made, 1_001)
})

test('of many namespaces only the most recently used views are kept', () => {
  const views = new Views(() => ({}) as Stores)
  const first = views.within('first')
  for (let i = 0; i < 1_000; i++) views.within(`other ${i}`)
  assert.notEqual(views.within('first'), first)
})
