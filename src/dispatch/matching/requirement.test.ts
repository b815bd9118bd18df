import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Labels, ServiceOffer, Term } from '../node.ts'
import { Dictionary, Profile } from './capability.ts'
import { compileAll, labelsAsked, termHolds } from './requirement.ts'

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

for (const [term, expected] of table) {
  test(`${JSON.stringify(term)} ${expected ? 'holds' : 'does not hold'}, compiled or read`, () => {
    const dictionary = new Dictionary()
    const early = compileAll([term], dictionary, rules)
    const profile = new Profile(dictionary, services, labels)
    assert.equal(early(profile), expected)
    assert.equal(
      compileAll([term], dictionary, rules)(profile),
      expected,
      'words learnt after the profile was made',
    )
    assert.equal(termHolds(term, services, labels, rules), expected)
  })
}

test('all terms of a list must hold, and an empty list always does', () => {
  const dictionary = new Dictionary()
  const profile = new Profile(dictionary, services, labels)
  assert.equal(compileAll([], dictionary, rules)(profile), true)
  assert.equal(compileAll([{ service: 'asr' }, { service: 'tts' }], dictionary, rules)(profile), false)
})

test('a service cannot be mistaken for a tag or a label of the same words', () => {
  const dictionary = new Dictionary()
  const odd: readonly ServiceOffer[] = [{ name: 'a","b', slots: 1, tags: { c: ['d'] } }]
  const profile = new Profile(dictionary, odd, {})
  assert.equal(compileAll([{ service: 'a', where: { b: 'd' } }], dictionary, rules)(profile), false)
  assert.equal(compileAll([{ label: 'a","b' }], dictionary, rules)(profile), false)
})

test('the labels that terms ask for are found inside any, not and the rules of pools', () => {
  const terms: Term[] = [{ any: [{ not: { label: 'a' } }, { label: 'b' }] }, { label: 'pool', in: ['large'] }]
  assert.deepEqual([...labelsAsked(terms, rules)].sort(), ['a', 'b', 'memory', 'zone'])
})
