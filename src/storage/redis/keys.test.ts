import assert from 'node:assert/strict'
import { test } from 'vitest'
import {
  channelOf,
  decodeDue,
  decodeKey,
  decodeRequester,
  encodeKey,
  encodeRequester,
  Keyring,
} from './keys.ts'

/** Numbers that follow from a seed. */
function numbers(seed: number): (end: number) => number {
  let state = seed
  return (end) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * end)
  }
}

const below = numbers(7)
const pieces = [
  'a',
  'b',
  ':',
  '{',
  '}',
  '{sb:1}',
  '%',
  '%1F',
  '\x1f',
  '\x1e',
  '\0',
  '*',
  '\r\n',
  '/',
  ' ',
  'ä',
  '😀',
]
const aName = () => Array.from({ length: 1 + below(3) }, () => pieces[below(pieces.length)]).join('')

test('two different lists of names never share a key', () => {
  const seen = new Map<string, string>()
  for (let n = 0; n < 30_000; n++) {
    const names = [aName(), aName(), aName()] as const
    const [namespace, operation, resource] = names
    const { key } = new Keyring(namespace).locate({ operation, resource })
    const list = JSON.stringify(names)
    assert.equal(seen.get(key) ?? list, list, JSON.stringify(key))
    seen.set(key, list)
    // As scripts find it in the key.
    const name = key.slice(key.indexOf('\x1f') + 1)
    assert.equal(name, encodeKey({ operation, resource }))
    assert.deepEqual(decodeKey(name), { operation, resource })
    const who = { node: namespace, requestId: operation }
    assert.deepEqual(decodeRequester(encodeRequester(who)), who)
    assert.deepEqual(decodeDue(`${name}\x1f${encodeRequester(who)}`), { key: { operation, resource }, who })
    assert.deepEqual(decodeDue(name), { key: { operation, resource }, who: undefined })
  }
  const channels = new Set([channelOf('a', 'b:c'), channelOf('a:b', 'c'), channelOf('a\x1fb', 'c')])
  assert.equal(channels.size, 3)
})

test('all keys of all operations of a resource have the same hash tag, which names cannot change', () => {
  for (let n = 0; n < 2_000; n++) {
    const keyring = new Keyring(aName())
    const resource = aName()
    const keys = ['pull', 'push', aName()].map((operation) => keyring.locate({ operation, resource }).key)
    const tags = keys.map((key) => /^signalbox:\{(sb:\d+)\}:/.exec(key)?.[1])
    assert.ok(tags[0] !== undefined)
    assert.equal(new Set(tags).size, 1)
    // Where scripts look for the kind of a key.
    for (const key of keys) assert.match(key.slice(0, key.indexOf(':queue:')), /^signalbox:\{sb:\d+\}$/)
  }
})

test('resources are spread over all shards', () => {
  const keyring = new Keyring('default')
  const counts = new Map<number, number>()
  for (let n = 0; n < 64_000; n++) {
    const { shard } = keyring.locate({ operation: 'pull', resource: `app:${n}` })
    counts.set(shard, (counts.get(shard) ?? 0) + 1)
  }
  assert.equal(counts.size, 64)
  for (const count of counts.values()) assert.ok(count > 700 && count < 1_300, `${count}`)
})

test('the shard of a wait queue never changes', () => {
  const { key, shard } = new Keyring('default').locate({ operation: 'pull', resource: 'app:1.2' })
  assert.equal(shard, 7)
  assert.equal(key, 'signalbox:{sb:7}:queue:default\x1fpull\x1fapp:1.2')
})

test('encoded keys sort as the pairs do', () => {
  const names = ['a', 'a ', 'a%', 'a-', 'a/b', 'ab', 'b', 'ä']
  const pairs = names.flatMap((operation) => names.map((resource) => ({ operation, resource })))
  const sorted = pairs.map(encodeKey).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  assert.deepEqual(sorted.map(decodeKey), pairs)
})
