import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createTokens, type Token } from '../../../access/index.ts'
import { openMemory } from '../../../storage/memory/index.ts'
import type { Call, Principal } from '../call.ts'
import { tokenHandlers } from './system.ts'

async function stage() {
  const { tokens: store } = await openMemory({ namespace: 'default', migrate: false })
  const tokens = createTokens({ store })
  return { tokens, handlers: tokenHandlers(tokens) }
}

const every: Principal = { id: 'local', scope: 'admin', namespace: 'default', everyNamespace: true }
const shop: Principal = { id: 'x', scope: 'admin', namespace: 'shop', everyNamespace: false }

/** A call as the server would make it; these handlers look at no more of it. */
function call<Asked>(principal: Principal, asked: Asked): Call & Asked {
  return { principal, ...asked } as Call & Asked
}

function bodyOf<Body>(answer: { readonly body: Body } | object): Body {
  assert.ok('body' in answer)
  return answer.body as Body
}

test('an admin of one namespace creates tokens of that namespace only', async () => {
  const { handlers } = await stage()
  const make = (principal: Principal, namespace?: string) =>
    handlers.createToken(
      call(principal, { body: { name: 'n', scope: 'work' as const, ...(namespace && { namespace }) } }),
    )
  assert.equal(bodyOf<Token>(await make(shop)).namespace, 'shop')
  assert.equal(bodyOf<Token>(await make(shop, 'shop')).namespace, 'shop')
  for (const namespace of ['default', '*', 'Shop'])
    await assert.rejects(make(shop, namespace), { code: 'forbidden' }, namespace)
  assert.equal(bodyOf<Token>(await make(every)).namespace, 'default')
  for (const namespace of ['shop', '*'])
    assert.equal(bodyOf<Token>(await make(every, namespace)).namespace, namespace)
})

test('a new token comes with its secret, and later answers have neither secret nor digest', async () => {
  const { handlers, tokens } = await stage()
  const body = { name: 'n', scope: 'read' as const, expiresInMs: '1h' as const }
  const { secret, ...token } = bodyOf<Token & { secret: string }>(
    await handlers.createToken(call(every, { body })),
  )
  assert.equal((await tokens.verify(secret))?.id, token.id)
  assert.equal(token.expiresAt, token.createdAt + 3_600_000)
  const page = bodyOf(await handlers.listTokens(call(every, { query: {} })))
  assert.deepEqual(page, { items: [token], cursor: null })
  const revoked = bodyOf<Token>(await handlers.revokeToken(call(every, { params: { id: token.id } })))
  assert.deepEqual(revoked, { ...token, revokedAt: revoked.revokedAt })
  assert.equal(await tokens.verify(secret), undefined)
})

test('an admin of one namespace sees only its tokens, page by page; a global admin sees all', async () => {
  const { handlers, tokens } = await stage()
  for (const namespace of ['shop', 'default', '*', 'shop', 'shop'])
    await tokens.create({ name: 'n', scope: 'read', namespace })
  const list = async (principal: Principal, query: { limit?: number; cursor?: string }) =>
    bodyOf<{ items: Token[]; cursor: string | null }>(await handlers.listTokens(call(principal, { query })))
  const first = await list(shop, { limit: 2 })
  const rest = await list(shop, { limit: 2, cursor: first.cursor! })
  assert.deepEqual(
    [...first.items, ...rest.items].map(({ namespace }) => namespace),
    ['shop', 'shop', 'shop'],
  )
  assert.equal(rest.cursor, null)
  assert.equal((await list(every, {})).items.length, 5)
})

test('a token of another namespace is not found by other callers', async () => {
  const { handlers, tokens } = await stage()
  const revoke = (principal: Principal, id: string) =>
    handlers.revokeToken(call(principal, { params: { id } }))
  for (const namespace of ['default', '*']) {
    const { id, secret } = await tokens.create({ name: 'n', scope: 'read', namespace })
    await assert.rejects(revoke(shop, id), { code: 'not_found' })
    assert.ok(await tokens.verify(secret), 'the foreign token was revoked')
    await revoke(every, id)
    assert.equal(await tokens.verify(secret), undefined)
  }
  for (const principal of [shop, every])
    await assert.rejects(revoke(principal, 'nope'), { code: 'not_found' })
})
