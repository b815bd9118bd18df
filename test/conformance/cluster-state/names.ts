import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'vitest'
import type { ClusterKind } from '../../../src/dispatch/cluster/cluster-store.ts'
import type { ClusterStateCandidate } from './opening.ts'
import { aWrite, ClusterStage, plenty } from './stage.ts'

/** Two keys that differ in any character are different, and a document is read back as it was written. */
export function namesContract({ open }: ClusterStateCandidate): void {
  test('keys that look alike are different keys', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const versions = await stage.all(keys.map((key) => aWrite(key, { doc: JSON.stringify(key) })))
    for (const [n, key] of keys.entries()) {
      const row = await stage.find(key)
      assert.deepEqual([row?.key, row?.version, row?.doc], [key, versions[n], JSON.stringify(key)])
    }
    assert.deepEqual(
      (await stage.allRows()).map(({ key }) => key),
      keys,
    )
    await stage.made('x', { seen: versions[keys.indexOf('x')]!, doc: null })
    for (const key of keys) assert.equal((await stage.find(key)) === undefined, key === 'x', key)
  })

  test('keys that look alike stay separate in calls that follow each other', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    for (const key of keys) {
      await stage.made(key)
      assert.equal(await stage.put(key), null)
    }
    assert.equal((await stage.allRows()).length, keys.length)
  })

  test('the same key in another kind is a different row', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const versions = new Map<ClusterKind, number>()
    for (const kind of kinds) versions.set(kind, await stage.made('a', { kind, doc: `"${kind}"` }))
    assert.equal(await stage.put('a', { kind: 'node', seen: versions.get('server')!, doc: null }), null)
    await stage.made('a', { kind: 'pool', seen: versions.get('pool')!, doc: null })
    for (const kind of kinds)
      assert.equal((await stage.find('a', kind))?.doc, kind === 'pool' ? undefined : `"${kind}"`)
    assert.deepEqual(
      (await stage.allRows()).map(({ kind }) => kind),
      ['server', 'node', 'demand', 'cordon', 'drain', 'pool'],
    )
  })

  test('keys of the greatest length are accepted, also when only their last characters differ', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    for (const long of longest) {
      const [one, two] = [`${long}1`, `${long}2`]
      const version = await stage.made(one, { doc: '1' })
      await stage.made(two, { doc: '2' })
      await stage.made(one, { seen: version, doc: '3' })
      assert.deepEqual([(await stage.find(one))?.doc, (await stage.find(two))?.doc], ['3', '2'])
      assert.equal((await stage.find(two))?.key, two)
    }
    assert.equal((await stage.allRows()).length, 2 * longest.length)
  })

  test('a document is read back byte for byte', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const versions = await stage.all(documents.map((doc, n) => aWrite(`${n}`, { doc })))
    for (const [n, doc] of documents.entries()) assert.equal((await stage.find(`${n}`))?.doc, doc)
    assert.deepEqual(
      (await stage.allRows()).map((row) => row.doc),
      documents,
    )
    // The same documents, written over the earlier ones.
    for (const [n, seen] of versions.entries())
      await stage.made(`${n}`, { seen, doc: documents[(n + 1) % documents.length]! })
    for (const n of documents.keys())
      assert.equal((await stage.find(`${n}`))?.doc, documents[(n + 1) % documents.length])
  })

  test('a large document can be written, also several in one call', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const large = ['a', 'é', '汉', '🙂'].map((character) =>
      JSON.stringify(character.repeat(Math.floor(1_048_576 / Buffer.byteLength(character)))),
    )
    await stage.all(large.map((doc, n) => aWrite(`${n}`, { doc })))
    for (const [n, doc] of large.entries()) assert.ok((await stage.find(`${n}`))?.doc === doc, `${n}`)
    const { rows } = await stage.store.read(0, plenty)
    assert.ok(rows.every(({ doc }, n) => doc === large[n]))
    const larger = JSON.stringify(noise(3_000_000))
    const version = await stage.made('larger', { doc: larger })
    assert.ok((await stage.find('larger'))?.doc === larger)
    await stage.made('larger', { seen: version, doc: null })
    assert.equal(await stage.find('larger'), undefined)
  })
}

/** Text that cannot be compressed. */
function noise(length: number): string {
  const parts: string[] = []
  for (let n = 0; n * 43 < length; n++) parts.push(createHash('sha256').update(`${n}`).digest('base64url'))
  return parts.join('').slice(0, length)
}

const kinds: readonly ClusterKind[] = ['server', 'node', 'demand', 'pool', 'cordon', 'drain']

/** 599 characters each: of one byte, of four, and of four in random order. */
const longest = [
  'k'.repeat(599),
  '🙂'.repeat(599),
  Array.from(noise(2 * 599).matchAll(/../g), ([two]) =>
    String.fromCodePoint(0x20000 + (two!.charCodeAt(0) % 64) * 64 + (two!.charCodeAt(1) % 64)),
  ).join(''),
]

const keys = [
  ...['x', 'X', 'x ', ' x', 'x  ', 'xx'],
  ...['e', 'E', 'é', 'e\u0301', 'É', 'ß', 'ss', 'ı', 'i', 'ﬀ', 'ff', '\u00c5', '\u212b', 'A'],
  ...['a:b', 'a::b', 'a%3Ab', '%3A', '%', '_', '*', '?', '[a-z]', '{x}', '}{', '\\', '\\%', '/', '..'],
  ...['node a', 'node:a', 'node', 'a', '["a",null]', '["a","b"]', '["a", null]'],
  ...['字', '🙂', '🙃', '👩‍👩‍👧'],
  ...["'; DROP TABLE fleet_row; --", "return redis.call('FLUSHALL')", '$1', ':key', '?1', '@a'],
  ...['__proto__', 'null', 'undefined', '0', '00', '-0', '1e3', 'true', '~', 'gpu#a1b2'],
]

const documents = [
  ...['{}', '[]', 'null', '""', '0', '-0', '1.0', '1e400', '9007199254740993', 'true', '"null"'],
  ...['{ "a" : 1 }', '{"b":1,"a":2}', '{"a":1,"a":2}', ' {"a":1}\n', '\t[1, 2]\r\n'],
  ...['"\\u0041\\u0000\\ud83d"', '"\\\\\\"\\/"', `"'; DROP TABLE fleet_row; --"`, '"%s $1 ?1 :doc \\n"'],
  ...['"é e\u0301 ß ﬀ Å Å"', '"🙂 👩‍👩‍👧 字 \u2028 \u2029 \ufeff \u200b \u007f"', '"\u{10ffff} \ufffd"'],
  JSON.stringify({ __proto__: null, nested: [[[[{ deep: 'ü' }]]]], numbers: [9007199254740991, 1e-7] }),
]
