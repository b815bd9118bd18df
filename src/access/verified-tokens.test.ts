import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createFakeClock } from '../core/fake-clock.ts'
import { createId } from '../core/ids.ts'
import { openMemory } from '../storage/memory/index.ts'
import { createSecret, presentSecret } from './secret.ts'
import type { TokenStore } from './token-store.ts'
import { createTokens } from './tokens.ts'
import { VerifiedTokens } from './verified-tokens.ts'

async function stage(maxEntries = 100) {
  const { tokens: store } = await openMemory({ namespace: 'default', migrate: false })
  const clock = createFakeClock()
  const asked: string[][] = []
  const counting: TokenStore = Object.assign(Object.create(store), {
    find: (ids: readonly string[]) => {
      asked.push([...ids])
      return store.find(ids)
    },
  })
  const options = { clock, maxAgeMs: 2_000, deadlineMs: 5_000, wrongMs: 5_000, maxEntries }
  const verified = new VerifiedTokens(counting, options)
  const tokens = createTokens({ store, onChange: (id) => verified.forget(id) })
  const make = () => tokens.create({ name: 'n', scope: 'read', namespace: 'a' })
  return { store, clock, asked, verified, tokens, make }
}

test('the store is asked once for many requests, and again when the answer is too old', async () => {
  const { verified, asked, clock, make } = await stage()
  const { secret, id } = await make()
  const presented = presentSecret(secret)
  const found = await Promise.all([verified.find(presented), verified.find(presented)])
  assert.deepEqual(
    found.map((token) => token?.id),
    [id, id],
  )
  await verified.find(presented)
  assert.equal(asked.length, 1)
  clock.advance(2_000)
  await verified.find(presented)
  assert.equal(asked.length, 2)
})

test('a token revoked elsewhere ends when its cached answer is too old, one revoked here at once', async () => {
  const { verified, store, clock, tokens, make } = await stage()
  const elsewhere = await make()
  const here = await make()
  for (const { secret, id } of [elsewhere, here])
    assert.equal((await verified.find(presentSecret(secret)))?.id, id)
  await store.revoke(elsewhere.id)
  await tokens.revoke(here.id)
  assert.equal(await verified.find(presentSecret(here.secret)), undefined)
  assert.equal((await verified.find(presentSecret(elsewhere.secret)))?.id, elsewhere.id)
  clock.advance(2_000)
  assert.equal(await verified.find(presentSecret(elsewhere.secret)), undefined)
})

test('wrong secrets displace no valid ones in the cache, and both kinds are bounded', async () => {
  const { verified, make } = await stage(3)
  const good = await Promise.all(Array.from({ length: 5 }, make))
  for (let i = 0; i < 50; i++) await verified.find(presentSecret(createSecret(createId())))
  assert.deepEqual([verified.size, verified.wrongSize], [0, 3])
  for (const { secret } of good) await verified.find(presentSecret(secret))
  for (let i = 0; i < 50; i++) await verified.find(presentSecret(createSecret(good[4]!.id)))
  assert.equal(verified.size, 3)
  for (const { secret, id } of good) assert.equal((await verified.find(presentSecret(secret)))?.id, id)
})

test('a failure of the store is not cached', async () => {
  const { store, clock } = await stage()
  const failing: TokenStore = Object.assign(Object.create(store), {
    find: () => Promise.reject(new Error('cut')),
  })
  const options = { clock, maxAgeMs: 2_000, deadlineMs: 5_000, wrongMs: 5_000, maxEntries: 9 }
  const verified = new VerifiedTokens(failing, options)
  await assert.rejects(verified.find(presentSecret(createSecret(createId()))), { code: 'store_unavailable' })
  assert.deepEqual([verified.size, verified.wrongSize], [0, 0])
})

test('a repeated wrong secret is looked up once in five seconds', async () => {
  const { verified, asked, clock, tokens, make } = await stage()
  const wrong = presentSecret(createSecret(createId()))
  const { secret, id } = await make()
  for (let i = 0; i < 100; i++) assert.equal(await verified.find(wrong), undefined)
  assert.equal(asked.length, 1)
  clock.advance(5_000)
  await verified.find(wrong)
  assert.equal(asked.length, 2)
  assert.equal((await verified.find(presentSecret(secret)))?.id, id)
  await tokens.revoke(id)
  for (let i = 0; i < 100; i++) assert.equal(await verified.find(presentSecret(secret)), undefined)
  assert.equal(asked.length, 4)
})

test('a flood of wrong secrets shares few calls of the store, and a valid one among them is found', async () => {
  const { verified, asked, make } = await stage()
  const { secret, id } = await make()
  const flood = Array.from({ length: 10_000 }, () => verified.find(presentSecret(createSecret(createId()))))
  const valid = verified.find(presentSecret(secret))
  assert.equal((await valid)?.id, id)
  assert.deepEqual(new Set(await Promise.all(flood)), new Set([undefined]))
  assert.equal(asked.flat().length, 10_001)
  assert.ok(asked.length <= 25, `${asked.length} calls`)
})

test('a lookup in a store that hangs ends in time, and delays no later request', async () => {
  const { store, clock } = await stage()
  let isHanging = true
  const hanging: TokenStore = Object.assign(Object.create(store), {
    find: (ids: readonly string[]) => (isHanging ? new Promise(() => {}) : store.find(ids)),
  })
  const options = { clock, maxAgeMs: 2_000, deadlineMs: 5_000, wrongMs: 5_000, maxEntries: 9 }
  const verified = new VerifiedTokens(hanging, options)
  const waiting = Array.from({ length: 5 }, () => verified.find(presentSecret(createSecret(createId()))))
  const settled = Promise.allSettled(waiting)
  await new Promise(setImmediate)
  clock.advance(5_000)
  for (const { status, reason } of (await settled) as PromiseRejectedResult[])
    assert.deepEqual([status, reason.code], ['rejected', 'store_unavailable'])
  isHanging = false
  assert.equal(await verified.find(presentSecret(createSecret(createId()))), undefined)
})

test("an answer of the watch's round counts as an answer of the store", async () => {
  const { store, clock, make } = await stage()
  const confirmed = { at: Number.NEGATIVE_INFINITY, uses: 0 }
  const watch = { use: () => void confirmed.uses++, confirmedAt: () => confirmed.at }
  let calls = 0
  const counting: TokenStore = Object.assign(Object.create(store), {
    find: (ids: readonly string[]) => {
      calls++
      return store.find(ids)
    },
  })
  const options = { clock, maxAgeMs: 500, deadlineMs: 5_000, wrongMs: 5_000, maxEntries: 9, watch }
  const verified = new VerifiedTokens(counting, options)
  const presented = presentSecret((await make()).secret)
  for (let i = 0; i < 10; i++) {
    assert.ok(await verified.find(presented))
    confirmed.at = clock.now()
    clock.advance(400)
  }
  assert.deepEqual([calls, confirmed.uses], [1, 10])
  clock.advance(100)
  await verified.find(presented)
  assert.equal(calls, 2)
})
