import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Say } from '../../words/catalogue.ts'
import { fill } from '../../words/catalogue.ts'
import { nodesWords } from '../../words/nodes.ts'
import { conditionsOf, describeTerm, type Term, termsOf } from './rule.ts'

const say: Say<typeof nodesWords> = (key, ...[values]) => fill(nodesWords[key], 'en', values ?? {})

test("a rule built from the form's rows reads back as the same rows", () => {
  const terms: readonly Term[] = [
    { label: 'region', in: ['eu', 'us'] },
    { not: { label: 'tier', in: ['spot'] } },
    { label: 'memoryGb', gte: 40 },
    { label: 'age', lte: 3 },
    { label: 'gpu' },
    { service: 'nmt', where: { pair: 'zh>en' } },
    { service: 'asr' },
  ]
  const lines = conditionsOf(terms)
  assert.deepEqual(
    lines?.map(({ value }) => value),
    ['eu, us', 'spot', '40', '3', '', 'pair=zh>en', ''],
  )
  assert.deepEqual(termsOf(lines!, say), terms)
})

test('a rule that the form cannot express is left to JSON', () => {
  const rules: readonly Term[] = [
    { any: [{ label: 'gpu' }] },
    { label: 'memoryGb', gte: 1, lte: 2 },
    { label: 'region', in: ['a,b'] },
    { not: { label: 'gpu' } },
    { service: 'nmt', where: { pair: 'a,b' } },
  ]
  for (const term of rules) assert.equal(conditionsOf([term]), undefined, JSON.stringify(term))
})

test('a missing part is named', () => {
  assert.throws(() => termsOf([{ kind: 'There', name: ' ', value: '' }], say), /needs a name/)
  assert.throws(() => termsOf([{ kind: 'In', name: 'region', value: '' }], say), /"region" needs a value/)
  assert.throws(() => termsOf([{ kind: 'From', name: 'gb', value: 'x' }], say), /"x" is not a number/)
})

test('a rule reads as a sentence', () => {
  const term: Term = {
    any: [{ label: 'memoryGb', gte: 40, lte: 80 }, { not: { service: 'nmt', where: { pair: 'zh>en' } } }],
  }
  assert.equal(
    describeTerm(term, say),
    'any of (memoryGb at least 40 and at most 80 or not (service nmt with pair zh>en))',
  )
})
