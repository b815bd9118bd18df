import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'vitest'
import { type NewToken, scopes, type TokenRecord, type TokenStore } from '../../../src/access/index.ts'
import { createId } from '../../../src/core/ids.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { ids, longMs, shortMs, until } from '../jobs/making.ts'

/** A token is stored as it was created, for every namespace, and lives until it expires or is revoked. */
export function tokensContract({ open, isShared }: Candidate): void {
  test('a created token is found with all its fields', async () => {
    await using backend = await open()
    const token = aToken({ scope: 'work', expiresInMs: 86_400_000_000 })
    const before = Date.now()
    const created = await backend.tokens.create(token)
    const { expiresInMs, ...given } = token
    const { createdAt } = created
    assert.deepEqual(created, {
      ...given,
      createdAt,
      expiresAt: createdAt + expiresInMs!,
      revokedAt: null,
      live: true,
    })
    // The store's clock is near this machine's.
    assert.ok(Number.isSafeInteger(createdAt) && Math.abs(createdAt - before) < 60_000)
    assert.deepEqual(await findOne(backend, token.id), created)
  })

  test('a token that never expires has no expiry time', async () => {
    await using backend = await open()
    const { id } = await backend.tokens.create(aToken())
    const found = await findOne(backend, id)
    assert.deepEqual([found?.expiresAt, found?.revokedAt, found?.live], [null, null, true])
  })

  test('a token bound to nodes keeps the list of nodes; a token is unbound by default', async () => {
    await using backend = await open()
    const nodes = ['gpu-7', `Ada's "node" \\ 火车 🚂, [1]`, '🚂'.repeat(191)]
    const bound = await backend.tokens.create(aToken({ scope: 'work', nodes }))
    const free = await backend.tokens.create(aToken({ scope: 'work' }))
    assert.deepEqual([bound.scope, bound.nodes, free.nodes], ['work', nodes, null])
    assert.deepEqual(await findOne(backend, bound.id), bound)
    const listed = await backend.tokens.list({ limit: 10 })
    assert.deepEqual(listed.find(({ id }) => id === bound.id)?.nodes, nodes)
    const revoked = await backend.tokens.revoke(bound.id)
    assert.deepEqual([revoked?.nodes, revoked?.live], [nodes, false])
  })

  test('one call finds many tokens, each once, and leaves out unknown ids', async () => {
    await using backend = await open()
    const made = await Promise.all(Array.from({ length: 5 }, () => backend.tokens.create(aToken())))
    const revoked = await backend.tokens.revoke(made[0]!.id)
    const kept = [revoked!, ...made.slice(1)]
    const asked = [...ids(kept), createId(), made[1]!.id, '', "a'b"]
    const found = await backend.tokens.find(asked)
    assert.deepEqual(
      [...found].sort((a, b) => (a.id < b.id ? -1 : 1)),
      kept.sort((a, b) => (a.id < b.id ? -1 : 1)),
    )
    assert.deepEqual(await backend.tokens.find([]), [])
    const unknownIds = Array.from({ length: 1_000 }, () => createId())
    assert.deepEqual(ids(await backend.tokens.find([...unknownIds, made[4]!.id])), [made[4]!.id])
  })

  test('an unknown or nearly equal id finds no token', async () => {
    await using backend = await open()
    const { id } = await backend.tokens.create(aToken())
    for (const other of [createId(), id.toUpperCase(), `${id} `, '', `${id.slice(0, -1)}%`]) {
      assert.equal(await findOne(backend, other), undefined, JSON.stringify(other))
      assert.equal(await backend.tokens.revoke(other), undefined, JSON.stringify(other))
    }
    assert.equal((await findOne(backend, id))?.live, true)
  })

  test('names and namespaces of tokens keep every character', async () => {
    await using backend = await open()
    const odd = [
      `Ada's "laptop" \\ $1 ? :x %s -- ;`,
      ' spaces around ',
      '火车 🚂 ке́й \u2028',
      '🚂'.repeat(191),
      '*',
      'null',
    ]
    for (const name of odd) {
      for (const scope of scopes) {
        const { id } = await backend.tokens.create(aToken({ name, namespace: name, scope }))
        const found = await findOne(backend, id)
        assert.deepEqual([found?.name, found?.namespace, found?.scope], [name, name, scope])
      }
    }
  })

  test('tokens of one namespace are listed oldest first, page by page', async () => {
    await using backend = await open()
    const [namespace, other] = [aNamespace(), aNamespace()]
    const mine: TokenRecord[] = []
    for (let i = 0; i < 7; i++) {
      mine.push(await backend.tokens.create(aToken({ namespace })))
      await backend.tokens.create(aToken({ namespace: other }))
    }
    const revoked = (await backend.tokens.revoke(mine[2]!.id))!
    mine[2] = revoked

    const read: TokenRecord[] = []
    for (let after: string | undefined; ; after = read.at(-1)?.id) {
      const page = await backend.tokens.list({ namespace, limit: 3, ...(after !== undefined && { after }) })
      // Also bounds the loop, in case no page is the last.
      assert.equal(page.length, Math.min(3, 7 - read.length))
      if (page.length === 0) break
      read.push(...page)
    }
    assert.deepEqual(read, mine)
    assert.deepEqual(await backend.tokens.list({ namespace: namespace.toUpperCase(), limit: 10 }), [])
    assert.deepEqual(await backend.tokens.list({ namespace: `${namespace} `, limit: 10 }), [])
  })

  test('tokens of all namespaces are listed together, ordered by id', async () => {
    await using backend = await open()
    const start = createId()
    const made: string[] = []
    for (const namespace of [aNamespace(), '*', aNamespace()]) {
      for (let i = 0; i < 2; i++) made.push((await backend.tokens.create(aToken({ namespace }))).id)
    }
    assert.deepEqual(ids(await backend.tokens.list({ after: start, limit: 10 })), made)
    assert.deepEqual(ids(await backend.tokens.list({ after: start, limit: 4 })), made.slice(0, 4))
    assert.deepEqual(ids(await backend.tokens.list({ after: made[3]!, limit: 10 })), made.slice(4))
  })

  test('a revoked token is no longer live, and a second revocation changes nothing', async () => {
    await using backend = await open()
    const token = await backend.tokens.create(aToken({ expiresInMs: longMs }))
    const neighbour = await backend.tokens.create(aToken({ namespace: token.namespace, name: token.name }))
    const revoked = await backend.tokens.revoke(token.id)
    assert.ok(revoked?.revokedAt != null && revoked.revokedAt >= token.createdAt)
    assert.deepEqual(revoked, { ...token, revokedAt: revoked.revokedAt, live: false })
    assert.deepEqual(await findOne(backend, token.id), revoked)

    // Another instant would show.
    await until("the store's clock moves on", async () => {
      const { createdAt } = await backend.tokens.create(aToken())
      return createdAt > revoked.revokedAt!
    })
    assert.deepEqual(await backend.tokens.revoke(token.id), revoked)
    assert.deepEqual(await findOne(backend, neighbour.id), neighbour)
  })

  test("a token expires by the store's clock", async () => {
    await using backend = await open()
    const namespace = aNamespace()
    const token = await backend.tokens.create(aToken({ namespace, expiresInMs: shortMs }))
    const lasting = await backend.tokens.create(aToken({ namespace, expiresInMs: longMs }))
    assert.equal(token.live, true)
    await until('it expires', async () => (await findOne(backend, token.id))?.live === false)
    const now = (await backend.tokens.create(aToken())).createdAt
    assert.ok(now >= token.expiresAt!, 'not before its time')
    const listed = await backend.tokens.list({ namespace, limit: 10 })
    assert.deepEqual(listed, [{ ...token, live: false }, lasting])
    const revoked = await backend.tokens.revoke(token.id)
    assert.ok(revoked!.revokedAt! >= token.expiresAt!)
    assert.equal(revoked?.live, false)
  })

  test('the store knows whether any namespace has a live token', async () => {
    await using backend = await open()
    await revokeAll(backend.tokens)
    assert.equal(await backend.tokens.hasLive(), false)
    const short = await backend.tokens.create(aToken({ expiresInMs: shortMs }))
    await until('it expires', async () => (await findOne(backend, short.id))?.live === false)
    assert.equal(await backend.tokens.hasLive(), false, 'an expired one does not count')
    const { id } = await backend.tokens.create(aToken({ namespace: '*', scope: 'read' }))
    assert.equal(await backend.tokens.hasLive(), true)
    await backend.tokens.create(aToken({ expiresInMs: longMs }))
    await backend.tokens.revoke(id)
    assert.equal(await backend.tokens.hasLive(), true, 'another one is left')
    await revokeAll(backend.tokens)
    assert.equal(await backend.tokens.hasLive(), false)
  })

  test('tokens that are created and revoked at once are all listed and all ended', async () => {
    await using backend = await open()
    const namespace = aNamespace()
    const made = await Promise.all(
      Array.from({ length: 30 }, () => backend.tokens.create(aToken({ namespace }))),
    )
    assert.deepEqual(ids(await backend.tokens.list({ namespace, limit: 50 })), ids(made).sort())
    await Promise.all(made.map(({ id }) => backend.tokens.revoke(id)))
    const listed = await backend.tokens.list({ namespace, limit: 50 })
    assert.deepEqual(
      listed.map(({ live }) => live),
      made.map(() => false),
    )
  })

  test.runIf(isShared)(
    'a token that one backend revokes is ended at once for every other backend',
    async () => {
      await using backend = await open()
      await using other = await open()
      const { id } = await backend.tokens.create(aToken())
      assert.equal((await findOne(other, id))?.live, true)
      await backend.tokens.revoke(id)
      assert.equal((await findOne(other, id))?.live, false)
    },
  )

  test('a closed backend refuses every call about tokens', async () => {
    const backend: Backend = await open()
    await backend.close()
    const { tokens } = backend
    const calls: Record<string, () => Promise<unknown>> = {
      create: () => tokens.create(aToken()),
      find: () => tokens.find(['a']),
      list: () => tokens.list({ limit: 1 }),
      revoke: () => tokens.revoke('a'),
      hasLive: () => tokens.hasLive(),
    }
    for (const [call, run] of Object.entries(calls)) await assert.rejects(run, { code: 'closed' }, call)
  })
}

function aToken(token: Partial<NewToken> = {}): NewToken {
  const id = createId()
  return {
    id,
    name: 'ci',
    scope: 'admin',
    nodes: null,
    namespace: 'default',
    digest: createHash('sha256').update(id).digest('hex'),
    expiresInMs: null,
    ...token,
  }
}

async function findOne({ tokens }: Backend, id: string): Promise<TokenRecord | undefined> {
  const [found] = await tokens.find([id])
  return found
}

async function revokeAll(tokens: TokenStore): Promise<void> {
  for (let after = ''; ; ) {
    const page = await tokens.list({ limit: 100, after })
    for (const { id, live } of page) if (live) await tokens.revoke(id)
    const last = page.at(-1)
    if (!last) return
    assert.ok(last.id > after, 'each page is after the one before')
    after = last.id
  }
}
