import assert from 'node:assert/strict'
import { test } from 'vitest'
import {
  choicesFor,
  countChosen,
  countStates,
  defaultChoice,
  leftAlone,
  mustType,
  searchChosen,
} from './bulk-states.ts'

const counts = countStates(['dead', 'dead', 'completed', 'waiting', 'running', 'ready'])

test('a retry takes dead jobs only, unless a filter names another state', () => {
  assert.deepEqual(defaultChoice('retry', counts), ['dead'])
  assert.deepEqual(defaultChoice('retry', countStates(['completed']), 'completed'), ['completed'])
  assert.deepEqual(defaultChoice('retry', countStates(['completed'])), [])
  assert.deepEqual(choicesFor('retry', counts), ['dead', 'waiting', 'completed'])
  assert.deepEqual(leftAlone('retry', counts), ['ready', 'running'])
})

test('cancel and delete apply to every state that allows them', () => {
  assert.deepEqual(defaultChoice('cancel', counts), ['ready', 'waiting', 'running'])
  assert.deepEqual(defaultChoice('delete', counts), ['dead', 'completed', 'ready', 'waiting'])
  assert.equal(countChosen(counts, defaultChoice('delete', counts)), 5)
})

test('the user must type the number above 100 jobs, for a delete, and to run completed jobs again', () => {
  assert.equal(mustType('retry', 100, ['dead']), false)
  assert.equal(mustType('retry', 101, ['dead']), true)
  assert.equal(mustType('cancel', 101, ['ready']), true)
  assert.equal(mustType('delete', 1, ['dead']), true)
  assert.equal(mustType('retry', 1, ['completed']), true)
})

test('the search names the chosen states', () => {
  assert.equal(searchChosen('kind:"a"', ['dead']), 'kind:"a" state:dead')
  assert.equal(
    searchChosen('id:*', ['dead', 'cancelled']),
    'id:* -state:scheduled -state:ready -state:waiting -state:running -state:completed',
  )
  assert.equal(searchChosen('state:dead', ['dead'], 'dead'), 'state:dead')
})
