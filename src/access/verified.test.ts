import assert from 'node:assert/strict'
import { test } from 'vitest'
import { openMemory } from '../backends/memory/index.ts'
import { createFakeClock } from '../core/fakeclock.ts'
import { createId } from '../core/ids.ts'
import { createSecret, presentSecret } from './secret.ts'
import type { TokenStore } from './store.ts'
import { createTokens } from './tokens.ts'
import { VerifiedTokens } from './verified.ts'

async function stage(maxEntries = 100) {
  const { tokens: store } = await openMemory({ namespace: 'default', migrate: false })
  const clock = createFakeClock()
  const asked: string[] = []
  const counting: TokenStore = Object.assign(Object.create(store), {
    find: (id: string) => {
      asked.push(id)
      return store.find(id)
    },
  })
  const verified = new VerifiedTokens(counting, { clock, maxAgeMs: 2_000, deadlineMs: 5_000, maxEntries })
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

test('a token revoked elsewhere ends when its answer is too old, one revoked here at once', async () => {
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
  assert.equal(verified.knows(presentSecret(elsewhere.secret).digest), false)
})

test('wrong secrets leave nothing behind, and the good ones are bounded', async () => {
  const { verified, make } = await stage(3)
  const good = await Promise.all(Array.from({ length: 5 }, make))
  for (let i = 0; i < 50; i++) await verified.find(presentSecret(createSecret(createId())))
  assert.equal(verified.size, 0)
  for (const { secret } of good) await verified.find(presentSecret(secret))
  for (let i = 0; i < 50; i++) await verified.find(presentSecret(createSecret(good[4]!.id)))
  assert.equal(verified.size, 3)
  for (const { secret, id } of good) assert.equal((await verified.find(presentSecret(secret)))?.id, id)
})

test('when the store fails nothing is remembered of it', async () => {
  const { store, clock } = await stage()
  const failing: TokenStore = Object.assign(Object.create(store), {
    find: () => Promise.reject(new Error('cut')),
  })
  const verified = new VerifiedTokens(failing, { clock, maxAgeMs: 2_000, deadlineMs: 5_000, maxEntries: 9 })
  await assert.rejects(verified.find(presentSecret(createSecret(createId()))), { code: 'store_unavailable' })
  assert.equal(verified.size, 0)
})
