import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Labels, ServiceOffer, Term } from '../node.ts'
import { allHold, labelsAsked, type Profile, termHolds } from './requirement.ts'

const services: readonly ServiceOffer[] = [
  { name: 'asr', slots: 1, tags: { language: ['zh', 'en'], pair: [] } },
  { name: 'nmt', slots: 1, tags: { pair: ['zh>en'] } },
]
const labels: Labels = { zone: 'north', memory: 24, ssd: true, level: '7' }
const rules = new Map<string, readonly Term[]>([
  ['large', [{ label: 'memory', gte: 16 }]],
  ['south', [{ label: 'zone', in: ['south'] }]],
  ['loop', [{ label: 'pool', in: ['loop'] }]],
])

const table: readonly (readonly [Term, boolean])[] = [
  [{ service: 'asr' }, true],
  [{ service: 'tts' }, false],
  [{ service: 'asr', where: { language: 'zh' } }, true],
  [{ service: 'asr', where: { language: 'fr' } }, false],
  [{ service: 'asr', where: { language: 'zh', pair: 'zh>en' } }, false],
  [{ service: 'nmt', where: { pair: 'zh>en' } }, true],
  [{ service: 'nmt', where: { language: 'zh' } }, false],
  [{ service: 'asr', where: { nothing: 'zh' } }, false],
  [{ label: 'zone' }, true],
  [{ label: 'gpu' }, false],
  [{ label: 'zone', in: ['south', 'north'] }, true],
  [{ label: 'zone', in: [] }, false],
  [{ label: 'memory', in: ['24'] }, true],
  [{ label: 'ssd', in: ['true'] }, true],
  [{ label: 'memory', gte: 24 }, true],
  [{ label: 'memory', gte: 24.5 }, false],
  [{ label: 'memory', lte: 24 }, true],
  [{ label: 'memory', gte: 8, lte: 16 }, false],
  [{ label: 'zone', gte: 0 }, false],
  [{ label: 'level', gte: 1 }, false],
  [{ label: 'missing', lte: 1 }, false],
  [{ any: [] }, false],
  [{ any: [{ service: 'tts' }, { label: 'zone' }] }, true],
  [{ not: { service: 'tts' } }, true],
  [{ not: { any: [{ service: 'asr' }] } }, false],
  [{ not: { not: { label: 'gpu' } } }, false],
  [{ label: 'pool', in: ['large'] }, true],
  [{ label: 'pool', in: ['south'] }, false],
  [{ label: 'pool', in: ['south', 'large'] }, true],
  [{ label: 'pool', in: ['nowhere'] }, false],
  [{ label: 'pool', in: ['loop'] }, false],
  [{ label: 'pool' }, true],
]

const node: Profile = { services, labels }

for (const [term, expected] of table) {
  test(`${JSON.stringify(term)} ${expected ? 'holds' : 'does not hold'}`, () => {
    assert.equal(termHolds(term, node, rules), expected)
  })
}

test('all terms of a list must hold, and an empty list always does', () => {
  assert.equal(allHold([], node, rules), true)
  assert.equal(allHold([{ service: 'asr' }, { service: 'tts' }], node, rules), false)
})

test('the labels of terms are found inside any, not and the rules of pools', () => {
  const terms: Term[] = [{ any: [{ not: { label: 'a' } }, { label: 'b' }] }, { label: 'pool', in: ['large'] }]
  assert.deepEqual([...labelsAsked(terms, rules)].sort(), ['a', 'b', 'memory', 'zone'])
})
