import assert from 'node:assert/strict'
import { test } from 'vitest'
import { decodeMeta, decodeTags, encodeMeta, resolveTags } from './job-meta.ts'

test('a job about which nothing is said keeps no words', () => {
  assert.equal(encodeMeta({}), null)
  assert.equal(encodeMeta({ tags: [] }), null)
  assert.deepEqual(decodeMeta(null), {})
  assert.deepEqual(decodeTags(null), [])
})

test('tags come back as they were given, and what is not known beside them is kept', () => {
  assert.equal(encodeMeta({ tags: ['a', 'ä🚂'] }), '{"tags":["a","ä🚂"]}')
  const kept = '{"tags":["a"],"trace":{"id":"7"}}'
  assert.deepEqual(decodeTags(kept), ['a'])
  assert.equal(encodeMeta(decodeMeta(kept)), kept)
  assert.equal(encodeMeta({ ...decodeMeta(kept), tags: [] }), '{"trace":{"id":"7"}}')
})

test('words that were damaged are no words, and nobody is held up by them', () => {
  for (const kept of ['', '{', 'null', '7', '"a"', '["a"]']) {
    assert.deepEqual(decodeMeta(kept), {}, kept)
    assert.deepEqual(decodeTags(kept), [], kept)
  }
  assert.deepEqual(decodeTags('{"tags":"a"}'), [])
  assert.deepEqual(decodeTags('{"tags":["a",7,null,"b"]}'), ['a', 'b'])
})

test('tags are up to 20 texts of up to 64 characters, each once', () => {
  const most = Array.from({ length: 20 }, (_, i) => `${i} ${'🚂'.repeat(60)}`)
  assert.deepEqual(resolveTags('add.tags', most), most)
  assert.deepEqual(resolveTags('add.tags', ['a', 'b', 'a']), ['a', 'b'])
  assert.deepEqual(resolveTags('add.tags', []), [])
  const refused: readonly [value: unknown, message: RegExp][] = [
    ['a', /^add\.tags must be a list of up to 20 texts/],
    [null, /^add\.tags must be/],
    [[...most, 'one more'], /^add\.tags must be/],
    [['a', ''], /^add\.tags\[1\]/],
    [['x'.repeat(65)], /^add\.tags\[0\]/],
    [['a\nb'], /^add\.tags\[0\]/],
    [['\ud800'], /^add\.tags\[0\]/],
    [[7], /^add\.tags\[0\]/],
  ]
  for (const [value, message] of refused) {
    assert.throws(() => resolveTags('add.tags', value), { code: 'invalid_argument', message })
  }
})
