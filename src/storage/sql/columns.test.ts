import assert from 'node:assert/strict'
import { test } from 'vitest'
import { columns } from './columns.ts'

interface Entry {
  readonly id: string
  readonly createdAt: number
  readonly endedAt: number | null
  readonly isOpen: boolean
  readonly group: string
  readonly nodes: readonly string[] | null
}

const entry = columns<Entry>({
  ...{ id: 'text', createdAt: 'integer', endedAt: 'integer | null', isOpen: 'boolean' },
  ...{ group: ['text', 'time_slot'], nodes: 'json | null' },
})

test('columns have their names in snake case, or the name that is given', () => {
  assert.equal(entry.names, 'id, created_at, ended_at, is_open, time_slot, nodes')
  assert.equal(entry.of('v'), 'v.id, v.created_at, v.ended_at, v.is_open, v.time_slot, v.nodes')
  assert.equal(entry.types.ended_at, 'integer | null')
  assert.equal(entry.types.nodes, 'text | null')
})

test('a row becomes the same record, however the driver gives numbers and flags', () => {
  const record = { id: 'a', createdAt: 7, endedAt: null, isOpen: true, group: 'g', nodes: ['n'] }
  const row = { id: 'a', ended_at: null, time_slot: 'g', nodes: '["n"]' }
  assert.deepEqual(entry.decode({ ...row, created_at: '7', is_open: 1 }), record)
  assert.deepEqual(entry.decode({ ...row, created_at: 7, is_open: true }), record)
  assert.deepEqual(entry.decode(entry.encode(record)), record)
})

test('a field that a record has not is written as null', () => {
  assert.deepEqual(entry.encode({ id: 'a' }), {
    ...{ id: 'a', created_at: null, ended_at: null, is_open: null, time_slot: null, nodes: null },
  })
})
