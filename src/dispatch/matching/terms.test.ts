import assert from 'node:assert/strict'
import { test } from 'vitest'
import { checkTerms } from './terms.ts'

/** Terms that are wrong, each with what its message must say. */
const wrong: readonly (readonly [unknown, RegExp])[] = [
  ['gpu', /^requires\[0\] must be an object with service, label, any or not, not "gpu"\.$/],
  [[], /^requires\[0\] must be an object with service, label, any or not, not an array\.$/],
  [{}, /^requires\[0\] must have one of service, label, any or not; it has no field\.$/],
  [{ lable: 'gpu' }, /^requires\[0\] must have one of service, label, any or not; it has lable\.$/],
  [
    { label: 'gpu', eq: 1 },
    /^requires\[0\] has the unknown field "eq"\. Allowed fields: label, in, gte, lte\.$/,
  ],
  [
    { service: 'nmt', in: ['a'] },
    /^requires\[0\] has the unknown field "in"\. Allowed fields: service, where\.$/,
  ],
  [{ any: [{ label: 'a' }], in: [] }, /^requires\[0\] has the unknown field "in"\. Allowed fields: any\.$/],
  [{ label: 'a', service: 'b' }, /^requires\[0\] has both service and label\. Write two terms/],
  [{ any: [{ label: 'a' }], not: { label: 'b' } }, /^requires\[0\] has both any and not\./],
  [{ label: 1 }, /^requires\[0\]\.label must be text .*, not 1\.$/],
  [{ label: 'gb', gte: '40' }, /^requires\[0\]\.gte must be a number, .*, not "40"\.$/],
  [{ label: 'gb', lte: null }, /^requires\[0\]\.lte must be a number, .*, not null\.$/],
  [{ label: 'gb', gte: 5, lte: 4 }, /^requires\[0\] has gte 5 above lte 4/],
  [{ label: 'zone', in: [] }, /^requires\[0\]\.in is an empty list.*or leave it out\.$/],
  [{ label: 'zone', in: 'eu' }, /^requires\[0\]\.in must be a list of words, not "eu"\.$/],
  [{ label: 'zone', in: ['eu', 7] }, /^requires\[0\]\.in\[1\] must be text .*, not 7\.$/],
  [{ any: [] }, /^requires\[0\]\.any is an empty list, so no node can match\./],
  [{ any: { label: 'a' } }, /^requires\[0\]\.any must be a list of terms, not an object\.$/],
  [{ any: [{ label: 'a' }, { label: 'b', gte: 'x' }] }, /^requires\[0\]\.any\[1\]\.gte must be a number/],
  [
    { not: { any: [{ service: 'a', tags: {} }] } },
    /^requires\[0\]\.not\.any\[0\] has the unknown field "tags"/,
  ],
  [{ not: [] }, /^requires\[0\]\.not must be an object with service, label, any or not, not an array\.$/],
  [
    { any: [{ any: [{ not: { any: [{ label: 'a' }] } }] }] },
    /^requires\[0\]\.any\[0\]\.any\[0\]\.not\.any\[0\] is nested more than 4 levels deep\.$/,
  ],
  [{ service: 'nmt', where: ['zh'] }, /^requires\[0\]\.where must be an object of tags, .*, not an array\.$/],
]

test('a wrong term is explained by its mistake', () => {
  for (const [term, message] of wrong)
    assert.throws(
      () => checkTerms('requires', [term]),
      { code: 'invalid_argument', message },
      JSON.stringify(term),
    )
})

test('valid terms pass unchanged', () => {
  const right = [
    { service: 'nmt', where: { pair: 'zh>en' } },
    { label: 'gpu' },
    { label: 'region', in: ['eu', 'us'] },
    { label: 'memoryGb', gte: 40, lte: 40 },
    { any: [{ not: { any: [{ label: 'a' }] } }] },
  ]
  assert.deepEqual(checkTerms('requires', right), right)
  assert.deepEqual(checkTerms('requires', []), [])
})
