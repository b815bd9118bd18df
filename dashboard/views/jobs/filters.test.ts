import assert from 'node:assert/strict'
import { test } from 'vitest'
import { parseSearch } from '../../../src/jobs/index.ts'
import { filtersOf, searchOf } from './filters.ts'

test('an unknown state is left out, and so is any other unknown part of the address', () => {
  assert.deepEqual(filtersOf({ state: 'asleep', queue: '', cursor: 'x', other: 'y' }), {})
  assert.deepEqual(filtersOf({ state: 'dead', queue: 'eu' }), { state: 'dead', queue: 'eu' })
})

test('filters written as one search mean the same, for any name', () => {
  assert.equal(searchOf({}), 'id:*')
  for (const queue of ['mail', 'a b', 'a"b', 'a\\', '*', 'x:y', '-x']) {
    const [term] = parseSearch(searchOf({ queue }))
    assert.deepEqual(term, parseSearch(`queue:${JSON.stringify(queue)}`)[0])
    assert.ok(JSON.stringify(term).includes(JSON.stringify(queue)), queue)
  }
  assert.equal(parseSearch(searchOf({ state: 'dead', kind: 'mail*', search: 'error:x -tag:y' })).length, 4)
})
