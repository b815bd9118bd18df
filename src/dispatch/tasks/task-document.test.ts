import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { JobRecord } from '../../jobs/index.ts'
import type { Term } from '../node.ts'
import { demandKind, encodeSpent, spentBefore } from './task-document.ts'

const zone: Term = { label: 'zone', in: ['north'] }
const english: Term = { service: 'asr', where: { language: 'en', model: 'large' } }

test('a task that takes one slot of its service and has no requirements has the service as its kind', () => {
  assert.equal(demandKind({ service: 'asr', uses: { asr: 1 }, requires: [] }), 'asr')
})

test('each further requirement makes another kind', () => {
  const kinds = [
    demandKind({ service: 'asr', uses: { asr: 1 }, requires: [] }),
    demandKind({ service: 'asr', uses: { asr: 2 }, requires: [] }),
    demandKind({ service: 'asr', uses: { asr: 1, nmt: 1 }, requires: [] }),
    demandKind({ service: 'nmt', uses: { asr: 1, nmt: 1 }, requires: [] }),
    demandKind({ service: 'asr', uses: { asr: 1 }, requires: [zone] }),
    demandKind({ service: 'asr', uses: { asr: 1 }, requires: [{ not: zone }] }),
    demandKind({ service: 'asr', uses: { asr: 1 }, requires: [zone, english] }),
    demandKind({ service: 'asr', uses: { asr: 1 }, requires: [{ any: [zone, english] }] }),
  ]
  assert.equal(new Set(kinds).size, kinds.length)
  for (const kind of kinds.slice(1)) assert.match(kind, /^(asr|nmt)#[\w-]{22}$/)
})

test('the same requirements have the same kind, in whatever order they are written', () => {
  const swapped: Term = { where: { model: 'large', language: 'en' }, service: 'asr' }
  assert.equal(
    demandKind({ service: 'asr', uses: { asr: 1, nmt: 2 }, requires: [zone, english] }),
    demandKind({ service: 'asr', uses: { nmt: 2, asr: 1 }, requires: [swapped, zone, zone] }),
  )
  // It is kept in stores and compared by servers of several versions: it must stay what it is.
  assert.equal(
    demandKind({ service: 'asr', uses: { asr: 2 }, requires: [zone] }),
    'asr#AStHvAwqHMOeiWSvn-epBC',
  )
})

test('no service name can be mistaken for another requirement', () => {
  const other = demandKind({ service: 'asr', uses: { asr: 2 }, requires: [] })
  assert.notEqual(demandKind({ service: other, uses: { [other]: 1 }, requires: [] }), other)
  assert.match(demandKind({ service: '~', uses: { '~': 1 }, requires: [] }), /^~#/)
})

test('the longest service name gives a kind that every store can keep', () => {
  const service = '🎧'.repeat(191)
  assert.equal(demandKind({ service, uses: { [service]: 1 }, requires: [] }), service)
  assert.equal([...demandKind({ service, uses: { [service]: 2 }, requires: [] })].length, 191)
})

test('a job stores the spent attempts and the last node, for the server that claims it next', () => {
  const spent = { spent: 2, moveCount: 1, shunned: 'n1' }
  const error = encodeSpent({ code: 'oom', message: 'No memory.' }, spent)
  assert.deepEqual(spentBefore({ error } as JobRecord), spent)
  const none = { spent: 0, moveCount: 0, shunned: null }
  for (const error of [null, '7', '{"message":"older"}', '{"shunned":7}'])
    assert.deepEqual(spentBefore({ error } as JobRecord), none)
})
