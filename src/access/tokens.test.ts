import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createId } from '../core/ids.ts'
import { openMemory } from '../storage/memory/index.ts'
import { createSecret } from './secret.ts'
import type { TokenStore } from './token-store.ts'
import { createTokens, type Tokens } from './tokens.ts'

interface Stage {
  readonly tokens: Tokens
  readonly store: TokenStore
  readonly changed: string[]
  now: number
}

async function stage(): Promise<Stage> {
  const built = { now: 1_000_000, changed: [] as string[] }
  const { tokens: store } = await openMemory({ namespace: 'default', migrate: false, now: () => built.now })
  const tokens = createTokens({ store, onChange: (id) => built.changed.push(id) })
  return Object.assign(built, { store, tokens })
}

const asked = { name: 'ci', scope: 'work', namespace: 'shop' } as const

test('a token may be bound to nodes: each named once, and only with the scope work', async () => {
  const { tokens } = await stage()
  const { id, secret, nodes } = await tokens.create({ ...asked, nodes: ['b', 'a', 'b'] })
  assert.deepEqual(nodes, ['a', 'b'])
  assert.deepEqual((await tokens.verify(secret))?.nodes, ['a', 'b'])
  assert.deepEqual((await tokens.find(id))?.nodes, ['a', 'b'])
  for (const none of [undefined, null])
    assert.equal((await tokens.create({ ...asked, nodes: none })).nodes, null)
  const many = Array.from({ length: 101 }, (_, i) => `n${i}`)
  for (const wrong of [[], 'n1', [''], ['a\nb'], [7], many, {}] as unknown[] as string[][])
    await assert.rejects(tokens.create({ ...asked, nodes: wrong }), { code: 'invalid_argument' })
  for (const scope of ['read', 'admin'] as const)
    await assert.rejects(tokens.create({ ...asked, scope, nodes: ['a'] }), /scope "work"/)
})

test('a token is created with a secret that the store never sees', async () => {
  const { tokens, store } = await stage()
  const { secret, ...token } = await tokens.create({ ...asked, expiresInMs: '1h' })
  assert.deepEqual(token, {
    id: token.id,
    ...asked,
    nodes: null,
    createdAt: 1_000_000,
    expiresAt: 1_000_000 + 3_600_000,
    revokedAt: null,
  })
  const [record] = await store.find([token.id])
  assert.equal(JSON.stringify(record).includes(secret.slice(-43)), false)
  assert.match(record!.digest, /^[0-9a-f]{64}$/)
})

test('a secret is recognised until its token expires or is revoked', async () => {
  const it = await stage()
  const { secret, ...token } = await it.tokens.create({ ...asked, expiresInMs: 5_000 })
  assert.deepEqual(await it.tokens.verify(secret), token)
  it.now += 4_999
  assert.deepEqual(await it.tokens.verify(secret), token)
  it.now += 1
  assert.equal(await it.tokens.verify(secret), undefined)

  const other = await it.tokens.create(asked)
  assert.equal(other.expiresAt, null)
  const revoked = await it.tokens.revoke(other.id)
  assert.equal(revoked.revokedAt, it.now)
  assert.equal(await it.tokens.verify(other.secret), undefined)
  it.now += 10
  assert.deepEqual(await it.tokens.revoke(other.id), revoked, 'revoking again changes nothing')
})

test('no wrong secret is recognised', async () => {
  const { tokens } = await stage()
  const { id, secret } = await tokens.create(asked)
  for (const wrong of [
    '',
    'x',
    id,
    `${secret} `,
    secret.slice(0, -1),
    `${secret.slice(0, -1)}${secret.endsWith('A') ? 'B' : 'A'}`,
    createSecret(id),
    createSecret(createId()),
    'x'.repeat(10_000),
  ])
    assert.equal(await tokens.verify(wrong), undefined, wrong)
})

test('a token whose row was damaged is refused', async () => {
  const { tokens, store } = await stage()
  const id = createId()
  const secret = createSecret(id)
  await store.create({ id, ...asked, nodes: null, digest: '', expiresInMs: null })
  assert.equal(await tokens.verify(secret), undefined)
})

test('a digest is never shown', async () => {
  const { tokens } = await stage()
  const { id } = await tokens.create(asked)
  for (const shown of [await tokens.find(id), await tokens.list(), await tokens.revoke(id)])
    assert.doesNotMatch(JSON.stringify(shown), /digest|[0-9a-f]{64}/)
})

test('tokens are listed oldest first, page by page, of one namespace or of all', async () => {
  const it = await stage()
  const made: string[] = []
  for (let i = 0; i < 5; i++)
    made.push((await it.tokens.create({ ...asked, namespace: i % 2 ? 'b' : 'a', expiresInMs: 10 })).id)
  const first = await it.tokens.list({ limit: 2 })
  assert.deepEqual(
    first.items.map(({ id, live }) => [id, live]),
    [
      [made[0], true],
      [made[1], true],
    ],
  )
  const second = await it.tokens.list({ limit: 3, cursor: first.cursor! })
  assert.deepEqual(
    second.items.map(({ id }) => id),
    made.slice(2),
  )
  assert.equal(second.cursor, null, 'a page that ends the list says so')
  it.now += 10
  const ofB = await it.tokens.list({ namespace: 'b' })
  assert.deepEqual(
    ofB.items.map(({ id, live }) => [id, live]),
    [
      [made[1], false],
      [made[3], false],
    ],
  )
})

test('an invalid token is refused before anything is written', async () => {
  const { tokens, store, changed } = await stage()
  for (const wrong of [
    { name: '' },
    { name: 'a\u0000' },
    { scope: 'root' },
    { scope: 'constructor' },
    { namespace: '' },
    { namespace: 'x'.repeat(192) },
    { expiresInMs: 0 },
    { expiresInMs: -1 },
    { expiresInMs: '5' },
    { expiresInMs: 1e300 },
    { digest: 'mine' },
  ])
    await assert.rejects(tokens.create({ ...asked, ...wrong } as never), { code: 'invalid_argument' })
  await assert.rejects(tokens.list({ limit: 501 }), { code: 'invalid_argument' })
  assert.deepEqual(await store.list({ limit: 10 }), [])
  assert.deepEqual(changed, [])
})

test('an unknown token cannot be revoked, and a secret given as its id is not repeated', async () => {
  const { tokens } = await stage()
  const { id, secret } = await tokens.create(asked)
  await assert.rejects(tokens.revoke('nope'), { code: 'not_found', message: /"nope"/ })
  await assert.rejects(tokens.revoke(secret), (error: Error) => !error.message.includes(secret.slice(-20)))
  assert.equal((await tokens.find(id))!.live, true)
})

test('caches of tokens are notified of a change, also when its outcome is unknown', async () => {
  const { tokens, store, changed } = await stage()
  const { id } = await tokens.create(asked)
  await tokens.revoke(id)
  assert.deepEqual(changed, [id, id])
  const breaking: TokenStore = Object.assign(Object.create(store), {
    create: () => Promise.reject(new Error('cut')),
    revoke: () => Promise.reject(new Error('cut')),
  })
  const told: string[] = []
  const unsure = createTokens({ store: breaking, onChange: (changedId) => told.push(changedId) })
  await assert.rejects(unsure.create(asked), /cut/)
  await assert.rejects(unsure.revoke(id), /cut/)
  assert.equal(told.length, 2)
  assert.equal(told[1], id)
})
