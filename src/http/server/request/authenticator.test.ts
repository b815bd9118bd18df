import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { TokenStore } from '../../../access/index.ts'
import { createFakeClock } from '../../../core/fake-clock.ts'
import { openMemory } from '../../../storage/memory/index.ts'
import { Admission } from './admission.ts'
import { type AuthenticatorOptions, TokenAuthenticator } from './authenticator.ts'

const bootstrap = 'b'.repeat(32)

async function stage(options: Partial<AuthenticatorOptions> = {}) {
  const clock = createFakeClock()
  const shared = { now: 1_000_000, broken: false, looks: 0 }
  const { tokens } = await openMemory({ namespace: 'default', migrate: false, now: () => shared.now })
  /** The same store, which can be away, and counts how often it is looked into. */
  const watched: TokenStore = new Proxy(tokens, {
    get: (target, name: keyof TokenStore) => async (argument: never) => {
      if (name === 'find' || name === 'hasLive') shared.looks++
      if (shared.broken) throw new Error('connection lost: postgres://u:hunter2@db')
      return await target[name](argument)
    },
  })
  /** Lets half a second pass, with the round in it to its end. */
  const pass = async () => {
    clock.advance(500)
    await new Promise(setImmediate)
  }
  const make = () => new TokenAuthenticator(watched, { bootstrap: [], loopback: true, clock, ...options })
  return { clock, shared, store: tokens, auth: make(), another: make(), pass }
}

type Headers = Readonly<Record<string, string>>

async function ask(auth: TokenAuthenticator, headers: Headers = {}, address = '10.0.0.1') {
  return auth.authenticate({ header: (name) => headers[name], address })
}
const bearer = (secret: string): Headers => ({ authorization: `Bearer ${secret}` })

const unauthorized = { code: 'unauthorized', details: { authenticate: true } }
const local = { id: 'local', scope: 'admin', namespace: 'default', everyNamespace: true }

test('on a loopback without tokens every caller is local and may do everything, in any namespace', async () => {
  const { auth } = await stage()
  assert.equal(await auth.isRequired(), false)
  assert.deepEqual(await ask(auth), local)
  assert.deepEqual(await ask(auth, { 'signalbox-namespace': 'shop' }), { ...local, namespace: 'shop' })
})

test('a token is required on any other address, with a bootstrap secret, and once a token is live', async () => {
  for (const options of [{ loopback: false }, { bootstrap: [bootstrap] }]) {
    const { auth } = await stage(options)
    assert.equal(await auth.isRequired(), true)
    await assert.rejects(ask(auth), unauthorized)
  }
  const { auth } = await stage()
  await ask(auth)
  const { id, secret } = await auth.tokens.create({ name: 'n', scope: 'read', namespace: 'shop' })
  await assert.rejects(ask(auth), unauthorized, 'at once here')
  assert.equal((await ask(auth, bearer(secret))).id, id)
  await auth.tokens.revoke(id)
  assert.deepEqual(await ask(auth), local)
})

test('a token created on another server is required here within 2 seconds', async () => {
  const { auth, another, clock } = await stage()
  assert.deepEqual(await ask(auth), local)
  await another.tokens.create({ name: 'n', scope: 'read', namespace: 'shop' })
  assert.deepEqual(await ask(auth), local)
  clock.advance(2_000)
  await assert.rejects(ask(auth), unauthorized)
})

test('an app that authenticates its callers needs no tokens, and a wrong token is still refused', async () => {
  const { auth } = await stage({ trust: true, loopback: false })
  const { secret } = await auth.tokens.create({ name: 'n', scope: 'read', namespace: 'shop' })
  assert.deepEqual(await ask(auth), local)
  assert.equal((await ask(auth, bearer(secret))).scope, 'read')
  await assert.rejects(ask(auth, bearer('nope')), unauthorized)
})

test('a token in a request must be valid, also where none is required', async () => {
  const { auth } = await stage()
  for (const authorization of [
    'Bearer nope',
    'Bearer ',
    'Bearer',
    '',
    'Basic dTpw',
    `Basic ${bootstrap}`,
    bootstrap,
    `Bearer sbx_01k9z3v8qe0m4t9wq3rb5c7xkd_${'a'.repeat(43)}`,
    `Bearer ${'x'.repeat(10_000)}`,
  ])
    await assert.rejects(ask(auth, { authorization }), unauthorized, authorization)
})

test('only the Authorization header is read', async () => {
  const { auth } = await stage({ bootstrap: [bootstrap] })
  for (const name of ['cookie', 'x-api-key', 'proxy-authorization', 'sec-websocket-protocol'])
    await assert.rejects(ask(auth, { [name]: `Bearer ${bootstrap}` }), unauthorized, name)
  assert.equal((await ask(auth, { authorization: `bEaReR  ${bootstrap} ` })).id, 'bootstrap')
})

test('a bootstrap secret may do everything, several may overlap, and a weak one refuses to start', async () => {
  const other = 'c'.repeat(64)
  const { auth } = await stage({ bootstrap: [bootstrap, other] })
  for (const secret of [bootstrap, other]) {
    assert.deepEqual(await ask(auth, bearer(secret)), { ...local, id: 'bootstrap' })
    assert.equal((await ask(auth, { ...bearer(secret), 'signalbox-namespace': 'a' })).namespace, 'a')
  }
  await assert.rejects(ask(auth, bearer(bootstrap.slice(1))), unauthorized)
  for (const weak of ['hunter2', '', ' '.repeat(40), `hunter2${'ü'.repeat(40)}`])
    await assert.rejects(
      stage({ bootstrap: [weak] }),
      ({ code, message }: Error & { code?: string }) =>
        code === 'invalid_argument' && !message.includes('hunter2'),
    )
})

test('a token acts in its own namespace, and a global token in whichever it names', async () => {
  const { auth } = await stage()
  const shop = await auth.tokens.create({ name: 'n', scope: 'work', namespace: 'shop' })
  const every = await auth.tokens.create({ name: 'n', scope: 'read', namespace: '*' })
  const principal = { id: shop.id, name: 'n', scope: 'work', namespace: 'shop', everyNamespace: false }
  assert.deepEqual(await ask(auth, bearer(shop.secret)), principal)
  assert.deepEqual(await ask(auth, { ...bearer(shop.secret), 'signalbox-namespace': 'shop' }), principal)
  for (const namespace of ['default', 'Shop', 'shop2', 'shop%2f'])
    await assert.rejects(ask(auth, { ...bearer(shop.secret), 'signalbox-namespace': namespace }), {
      code: 'forbidden',
    })
  const named = (namespace: string) =>
    ask(auth, { ...bearer(every.secret), 'signalbox-namespace': namespace })
  assert.equal((await ask(auth, bearer(every.secret))).namespace, 'default')
  assert.equal((await named('shop')).namespace, 'shop')
  assert.equal((await named(encodeURIComponent('größe/店'))).namespace, 'größe/店')
  for (const wrong of ['*', '', '%', '%ff', '%00', 'größe', 'a%0ab', 'x'.repeat(192)])
    await assert.rejects(named(wrong), { code: 'invalid_argument' }, wrong)
})

test('a token revoked on another server, or expired, is refused within a second', async () => {
  const { auth, another, pass, shared } = await stage()
  await another.tokens.create({ name: 'keeper', scope: 'read', namespace: 'x' })
  const revoked = await another.tokens.create({ name: 'n', scope: 'work', namespace: 'shop' })
  const expiring = await another.tokens.create({
    name: 'n',
    scope: 'work',
    namespace: 'shop',
    expiresInMs: 100,
  })
  for (const { secret } of [revoked, expiring]) await ask(auth, bearer(secret))
  await another.tokens.revoke(revoked.id)
  shared.now += 100
  await pass()
  for (const { secret } of [revoked, expiring]) await assert.rejects(ask(auth, bearer(secret)), unauthorized)
})

test('a token revoked here is refused from then on', async () => {
  const { auth } = await stage()
  await auth.tokens.create({ name: 'keeper', scope: 'read', namespace: 'x' })
  const { id, secret } = await auth.tokens.create({ name: 'n', scope: 'work', namespace: 'shop' })
  await ask(auth, bearer(secret))
  await auth.tokens.revoke(id)
  await assert.rejects(ask(auth, bearer(secret)), unauthorized)
})

test('a thousand requests ask the store once', async () => {
  const { auth, shared } = await stage()
  const { secret } = await auth.tokens.create({ name: 'n', scope: 'work', namespace: 'shop' })
  shared.looks = 0
  await Promise.all(Array.from({ length: 500 }, () => ask(auth, bearer(secret))))
  for (let i = 0; i < 500; i++) await ask(auth, bearer(secret))
  assert.equal(shared.looks, 1)
})

test('when the store cannot answer, every caller is refused, without details', async () => {
  const { auth, shared, clock } = await stage()
  await ask(auth)
  shared.broken = true
  clock.advance(2_000)
  const away = ({ code, message }: Error & { code?: string }) =>
    code === 'store_unavailable' && !message.includes('hunter2')
  await assert.rejects(ask(auth), away)
  await assert.rejects(ask(auth, bearer(`sbx_01k9z3v8qe0m4t9wq3rb5c7xkd_${'a'.repeat(43)}`)), away)
  shared.broken = false
  assert.deepEqual(await ask(auth), local)
})

test('only wrong tokens are throttled: a valid new token is accepted', async () => {
  const clock = createFakeClock()
  const { failures } = new Admission({ maxFailuresPerAddress: 20 }, clock)
  const { auth, shared } = await stage({ failures, clock })
  const [known, fresh] = [
    await auth.tokens.create({ name: 'n', scope: 'work', namespace: 'shop' }),
    await auth.tokens.create({ name: 'n', scope: 'work', namespace: 'shop' }),
  ]
  await ask(auth, bearer(known.secret))
  for (let i = 0; i < 20; i++)
    await assert.rejects(ask(auth, bearer(wrongOf(known.secret, `${10 + i}`))), unauthorized)
  const wrong = bearer(wrongOf(known.secret, '__'))
  const tooMany = { code: 'too_many', details: { retryAfterMs: 60_000 } }
  await assert.rejects(ask(auth, wrong), tooMany)
  await assert.rejects(ask(auth, bearer('no token at all')), tooMany)
  assert.equal((await ask(auth, bearer(fresh.secret))).id, fresh.id)
  assert.equal((await ask(auth, bearer(known.secret))).id, known.id)
  await assert.rejects(ask(auth, wrong, '10.0.0.2'), unauthorized)
  shared.looks = 0
  for (let i = 0; i < 100; i++) await assert.rejects(ask(auth, wrong), tooMany)
  assert.equal(shared.looks, 0, 'what is known to be wrong costs no look into the store')
  clock.advance(60_000)
  await assert.rejects(ask(auth, wrong), unauthorized)
})

test('requests without a token are not counted: they cost nothing and guess nothing', async () => {
  const clock = createFakeClock()
  const { failures } = new Admission({ maxFailuresPerAddress: 1 }, clock)
  const { auth } = await stage({ failures, clock, bootstrap: [bootstrap] })
  for (let i = 0; i < 5; i++) await assert.rejects(ask(auth), unauthorized)
})

/** A secret that ends so and is surely another one. */
function wrongOf(secret: string, end: string): string {
  return secret.slice(0, -3) + (secret.at(-3) === 'x' ? 'y' : 'x') + end
}

/** How a watched stream ends. */
function watching(auth: TokenAuthenticator, principal: Awaited<ReturnType<typeof ask>>): Promise<string> {
  return new Promise((resolve) => auth.watch(principal, ({ code }) => resolve(code)))
}

test('the streams of a revoked token end at once here and within a second on other servers', async () => {
  const { auth, another, pass } = await stage()
  const { id, secret } = await auth.tokens.create({ name: 'n', scope: 'read', namespace: 'shop' })
  const here = watching(auth, await ask(auth, bearer(secret)))
  const there = watching(another, await ask(another, bearer(secret)))
  await auth.tokens.revoke(id)
  assert.equal(await here, 'unauthorized')
  await pass()
  assert.equal(await there, 'unauthorized')
})

test('the streams of an expired token end within a second', async () => {
  const { auth, pass, shared } = await stage()
  const { secret } = await auth.tokens.create({ name: 'n', scope: 'read', namespace: 'a', expiresInMs: 50 })
  const stream = watching(auth, await ask(auth, bearer(secret)))
  shared.now += 50
  await pass()
  assert.equal(await stream, 'unauthorized')
})

test('local streams end when tokens come to be needed', async () => {
  const { auth, another, pass } = await stage()
  const here = watching(auth, await ask(auth))
  const there = watching(another, await ask(another))
  await auth.tokens.create({ name: 'n', scope: 'read', namespace: 'shop' })
  assert.equal(await here, 'unauthorized')
  // Whether tokens are needed at all is read every two seconds.
  for (let i = 0; i < 5; i++) await pass()
  assert.equal(await there, 'unauthorized')
})

test('a bootstrap secret’s streams need no checks, and closing leaves no timer', async () => {
  const { auth, clock } = await stage({ bootstrap: [bootstrap] })
  auth.watch(await ask(auth, bearer(bootstrap)), () => assert.fail('ended'))()
  assert.equal(clock.timerCount, 0)
  const { secret } = await auth.tokens.create({ name: 'n', scope: 'read', namespace: 'shop' })
  auth.watch(await ask(auth, bearer(secret)), () => {})
  assert.equal(clock.timerCount, 1)
  await auth[Symbol.asyncDispose]()
  assert.equal(clock.timerCount, 0)
})
