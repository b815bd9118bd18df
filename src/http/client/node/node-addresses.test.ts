import assert from 'node:assert/strict'
import { test } from 'vitest'
import { NodeAddresses } from './node-socket.ts'

const servers = ['a', 'b', 'c'].map((name) => ({ url: `ws://${name}`, base: `http://${name}` }))
const backoff = { baseMs: 100, factor: 2, jitter: 0, maxMs: 1_000 }
const absent = { code: 1006, wasWelcome: false, wasGood: false }
const lost = { code: 1001, wasWelcome: true, wasGood: true }

test('servers are tried in order without a wait, and each failed round makes the next wait longer', () => {
  const addresses = new NodeAddresses(servers, backoff)
  const tried: string[] = []
  const waits: number[] = []
  for (let tries = 0; tries < 18; tries++) {
    tried.push(addresses.current.url)
    waits.push(addresses.next(absent))
  }
  const round = [...tried.slice(0, 3)]
  assert.deepEqual(
    [...round].sort(),
    servers.map(({ url }) => url),
  )
  assert.deepEqual(tried, Array.from({ length: 6 }, () => round).flat())
  const betweenRounds = waits.filter((_, tries) => tries % 3 === 2)
  assert.deepEqual(betweenRounds, [100, 200, 400, 800, 1_000, 1_000])
  assert.equal(waits.filter((ms) => ms === 0).length, 12)
})

test('after a lost connection another server is tried soon, and the waits start short again', () => {
  const addresses = new NodeAddresses(servers, backoff)
  for (let tries = 0; tries < 10; tries++) addresses.next(absent)
  const { url } = addresses.current
  const waitMs = addresses.next(lost)
  assert.ok(waitMs <= 100, `${waitMs} ms`)
  assert.notEqual(addresses.current.url, url)
  assert.deepEqual([addresses.next(absent), addresses.next(absent)], [0, 100])
  // The round is over where it began.
  assert.equal(addresses.current.url, url)
})

test('a server that asks for a new hello is kept, and not flooded', () => {
  const addresses = new NodeAddresses(servers, backoff)
  const { url } = addresses.current
  const unknown = { code: 4404, wasWelcome: true, wasGood: false }
  assert.deepEqual([addresses.next(unknown), addresses.next(unknown)], [100, 200])
  assert.equal(addresses.current.url, url)
})

test('the waits for a single server grow each time', () => {
  const addresses = new NodeAddresses(servers.slice(0, 1), backoff)
  assert.deepEqual([addresses.next(absent), addresses.next(absent), addresses.next(lost)], [100, 200, 100])
  assert.equal(addresses.current.url, 'ws://a')
})

test('nodes start at different servers, and nodes of one server move to different others', () => {
  const first = new Map<string, number>()
  const secondOfA = new Map<string, number>()
  for (let node = 0; node < 3_000; node++) {
    const addresses = new NodeAddresses(servers, backoff)
    const { url } = addresses.current
    first.set(url, (first.get(url) ?? 0) + 1)
    addresses.next(lost)
    if (url === 'ws://a')
      secondOfA.set(addresses.current.url, (secondOfA.get(addresses.current.url) ?? 0) + 1)
  }
  // Twelve standard deviations from the mean.
  assert.ok(
    [...first.values()].every((count) => count > 690),
    JSON.stringify([...first]),
  )
  assert.ok(
    ['ws://b', 'ws://c'].every((url) => secondOfA.get(url)! > 250),
    JSON.stringify([...secondOfA]),
  )
})
