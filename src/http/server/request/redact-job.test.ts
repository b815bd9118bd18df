import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createId } from '../../../core/ids.ts'
import { type AttemptStore, fingerprintError, type JobRecord, type JobStore } from '../../../jobs/index.ts'
import { createMatcher } from '../../../jobs/search/match-search.ts'
import { parseSearch } from '../../../jobs/search/search-terms.ts'
import { createRedactor, noRedactor } from './redact-job.ts'

const shown = (paths: readonly string[], payload: unknown) => createRedactor(paths).payload(payload)

test('a path matches the end of the way to a value, through lists and in any case', () => {
  const payload = { card: { Number: 1, name: 'n' }, cards: [{ number: 2 }, [{ number: 3 }]], number: 4 }
  assert.deepEqual(shown(['card.number'], payload), {
    ...payload,
    card: { Number: '[redacted]', name: 'n' },
  })
  assert.deepEqual(shown(['NUMBER'], payload), {
    card: { Number: '[redacted]', name: 'n' },
    cards: [{ number: '[redacted]' }, [{ number: '[redacted]' }]],
    number: '[redacted]',
  })
  assert.deepEqual(shown(['payload.number', 'cards'], payload), {
    card: payload.card,
    cards: '[redacted]',
    number: '[redacted]',
  })
  assert.deepEqual(shown(['payload.*.number'], payload), {
    card: { Number: '[redacted]', name: 'n' },
    cards: [{ number: '[redacted]' }, [{ number: '[redacted]' }]],
    number: 4,
  })
  assert.equal(shown(['*'], payload), '[redacted]')
  assert.equal(shown(['payload'], 'secret'), '[redacted]')
  assert.deepEqual(shown(['result', 'error.message'], payload), payload)
})

test('a path reaches into lists, with or without positions', () => {
  const payload = { items: [{ secret: 1, open: 2 }, [{ secret: 3 }]], card: ['4111', '4222'] }
  const hidden = { ...payload, items: [{ secret: '[redacted]', open: 2 }, [{ secret: '[redacted]' }]] }
  for (const path of ['items.secret', 'items.*.secret', 'payload.items.*.secret', 'payload.*.*.secret'])
    assert.deepEqual(shown([path], payload), hidden, path)
  assert.deepEqual(shown(['items.0.secret'], payload), {
    ...payload,
    items: [{ secret: '[redacted]', open: 2 }, [{ secret: '[redacted]' }]],
  })
  assert.deepEqual(shown(['items.5.secret'], payload), payload)
  assert.deepEqual(shown(['card.*'], payload), { ...payload, card: ['[redacted]', '[redacted]'] })
  assert.deepEqual(shown(['payload.*'], ['4111']), ['[redacted]'])
  assert.deepEqual(shown(['payload.*.*.*.secret'], payload), {
    ...payload,
    items: [{ secret: 1, open: 2 }, [{ secret: '[redacted]' }]],
  })
})

test('a field whose name has dots matches as its spelt path, and as a plain name', () => {
  const payload = { 'card.number': 1, 'a.b': { 'c.d': 2 }, number: 3 }
  const hides = (path: string, value: unknown) => assert.deepEqual(shown([path], payload), value, path)
  hides('card.number', { ...payload, 'card.number': '[redacted]' })
  hides('payload.card.number', { ...payload, 'card.number': '[redacted]' })
  hides('payload.*.c.d', { ...payload, 'a.b': { 'c.d': '[redacted]' } })
  hides('a.b.c.d', { ...payload, 'a.b': { 'c.d': '[redacted]' } })
  hides('b.*', { ...payload, 'a.b': { 'c.d': '[redacted]' } })
  hides('number', { ...payload, 'card.number': '[redacted]', number: '[redacted]' })
  hides('payload.*', { 'card.number': '[redacted]', 'a.b': '[redacted]', number: '[redacted]' })
  for (const path of ['card', 'payload.number.card', 'x.card.number', 'a.c.d']) hides(path, payload)
})

test('nested lists do not make a path slow', () => {
  let deep: unknown = { secret: 1 }
  for (let level = 0; level < 60; level++) deep = [deep, 0]
  const path = `none${'.*'.repeat(18)}.secret`
  const from = performance.now()
  assert.deepEqual(shown([path], deep), deep)
  assert.ok(performance.now() - from < 2_000)
})

test('a payload that only starts like a sealed one is shown like any other', async () => {
  const record = { queue: 'q', result: null, error: null } as JobRecord
  const show = async (payload: string) => {
    const store = { find: async () => ({ ...record, payload }) } as unknown as JobStore
    return (await createRedactor(['password']).store(store).find('a'))!.payload
  }
  assert.equal(await show('{"$sealed":"x","password":"sesame"}'), '{"$sealed":"x","password":"[redacted]"}')
  const sealed = `{"$sealed":"${createId()}:AAAA"}`
  assert.equal(await show(sealed), sealed)
})

test('names of built-in object properties are names like any other', () => {
  const payload = JSON.parse('{"__proto__":{"a":1},"constructor":2}') as unknown
  assert.equal(JSON.stringify(shown(['a'], payload)), '{"__proto__":{"a":"[redacted]"},"constructor":2}')
  assert.equal(JSON.stringify(shown(['toString'], payload)), JSON.stringify(payload))
})

test('a value beyond the maximum depth is redacted, not searched for ever', () => {
  let deep: unknown = 'end'
  for (let level = 0; level < 20_000; level++) deep = [deep]
  assert.doesNotMatch(JSON.stringify(shown(['x'], deep)), /end/)
})

test('without paths nothing is searched, and an invalid path is refused', () => {
  assert.equal(createRedactor([]), noRedactor)
  for (const path of ['', 'a..b', '.a', 'a.', ' a', 5, 'a.'.repeat(20).concat('a'), 'a'.repeat(101)])
    assert.throws(() => createRedactor([path as string]), { code: 'invalid_argument' })
  // In other notations the path would silently hide nothing.
  for (const path of [
    '$.password',
    'items[].secret',
    'items[0]',
    'payload["a"]',
    '/payload/a',
    'pass*',
    '**.a',
  ])
    assert.throws(() => createRedactor([path]), { code: 'invalid_argument' }, path)
  for (const path of ['$ref', 'a/b', '*', 'a.*.b', 'x-y_z', 'été'])
    assert.doesNotThrow(() => createRedactor([path]), path)
  assert.throws(() => createRedactor(Array.from({ length: 201 }, () => 'a')), { code: 'invalid_argument' })
})

test('a redacted error keeps its group, on jobs, attempts and groups of errors', async () => {
  const error = JSON.stringify({
    name: 'Error',
    message: 'card 4111 was declined',
    stack: 'Error: card 4111 …',
  })
  const redactor = createRedactor(['error.message'])
  const record = { id: 'a', queue: 'q', kind: 'charge', payload: '1', result: null, error } as JobRecord
  const shown = (await redactor.store({ find: async () => record } as unknown as JobStore).find('a'))!
  assert.doesNotMatch(JSON.stringify(shown), /4111/)
  assert.equal(shown.errorGroup, fingerprintError('charge', error))
  assert.equal(createMatcher(parseSearch(`error.group:${shown.errorGroup}`), 0)(shown), true)

  const attempts = redactor.attempts({
    list: async () => [{ error }],
    groups: async () => [{ error }],
    group: async () => ({ error }),
  } as unknown as AttemptStore)
  const seen = [
    ...(await attempts.list('a')),
    ...(await attempts.groups({ limit: 1 })),
    await attempts.group('x'),
  ]
  for (const one of seen) {
    assert.equal(one!.error, error)
    assert.doesNotMatch(one!.shownError!, /4111/)
  }
})
