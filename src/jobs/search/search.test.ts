import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { isSignalboxError } from '../../core/errors.ts'
import { fingerprintError } from '../attempts/error-fingerprint.ts'
import { encodeSealed } from '../encryption/sealed-text.ts'
import { type JobState, jobStates } from '../job.ts'
import type { JobRecord } from '../job-store.ts'
import { createMatcher } from './match-search.ts'
import {
  comparisons,
  formatSearch,
  instantFields,
  nameFields,
  parseSearch,
  type SearchTerm,
} from './search-terms.ts'

const now = Date.parse('2026-11-15T12:00:00Z')

const record: JobRecord = {
  id: '01k9z3v8qe0m4t9wq3rb5c7xkd',
  queue: 'eu',
  kind: 'mail.welcome',
  payload: JSON.stringify({
    order: { id: 42, paid: false },
    customer: { name: 'Ann Lee', note: 'two\nlines, "quoted"' },
    items: [{ sku: 'a-1' }, { sku: 'b-2' }],
    empty: '',
    nothing: null,
  }),
  priority: 0,
  uniqueKey: 'welcome-42',
  state: 'dead',
  attempt: 3,
  maxAttempts: 3,
  handBackCount: 0,
  snoozeCount: 0,
  runAt: now - 3_600_000,
  createdAt: now - 7_200_000,
  startedAt: now - 1_800_000,
  finishedAt: now - 60_000,
  workerId: null,
  leaseEndsAt: null,
  backoff: null,
  timeoutMs: null,
  meta: JSON.stringify({ tags: ['eu', 'vip:gold'] }),
  result: null,
  error: JSON.stringify({
    name: 'TypeError',
    message: 'The Relay is away',
    code: 'ECONNREFUSED',
    stack: 'at zebra',
  }),
  cancelRequested: false,
  cancelIgnored: false,
}

const finds = (search: string, of: JobRecord = record) => createMatcher(parseSearch(search), now)(of)

test.each([
  '',
  '  ',
  'id:01k9z3v8qe0m4t9wq3rb5c7xkd',
  'kind:mail.welcome',
  'kind:mail*',
  'queue:eu state:dead',
  'tag:eu tag:vip:gold tag:"vip:"*',
  'key:welcome-42 key:*',
  'created>2026-11-01 created<2026-11-16T00:00Z',
  'created>-3h -created>-1h',
  'run<=-1h run>=-1h',
  'finished<-30s finished>2026-11-15T11:58:00.000Z',
  'started<2026-11-15T12:00:00+00:10 -started<2026-11-15T12:00:00+01:00',
  'attempt>=3 attempt:3 attempt=3 attempt<4',
  'error:relay error:"is away" error:econnrefused error:*',
  '-error:zebra -error:message',
  `error.group:${fingerprintError(record.kind, record.error!)} -error.group:0123456789abcdef`,
  'payload.order.id:42 payload.order.paid:false payload.nothing:null',
  'payload.customer.name:"Ann Lee" payload.customer.name:Ann*',
  'payload.items:* payload.items.sku:b-2 payload.items.1.sku:b-2',
  'payload.empty:""',
  '-payload.order.id:4 -payload.order.id:"42 " -payload.missing:* -payload.items.length:*',
  'ann lee "ANN LEE" 42 SKU mail. 01k9z RELAY',
  '"two\nlines" "\\"quoted\\""',
  '-zebra -"{" -nlines -"a-1\\",\\"b"',
])('the job is found by %s', (search) => {
  assert.equal(finds(search), true)
})

test.each([
  'kind:mail',
  'kind:Mail*',
  '-state:dead',
  'tag:gold',
  'attempt>3',
  'error.group:0123456789abcdef',
  'finished>-30s',
  'ann -lee',
  'payload.order:42',
  'payload.items.0.sku:b-2',
  'payload.constructor:*',
])('the job is not found by %s', (search) => {
  assert.equal(finds(search), false)
})

test('an event that never happened is neither before nor after any time', () => {
  const waiting: JobRecord = {
    ...record,
    state: 'ready',
    finishedAt: null,
    error: null,
    uniqueKey: null,
    meta: null,
  }
  for (const search of ['finished<+1d', 'finished>-1000d', 'error:*', 'key:*', 'tag:*'])
    assert.equal(finds(search, waiting), false, search)
})

test('a damaged payload is found, and so is one with escaped characters', () => {
  assert.equal(finds('broken', { ...record, payload: '{"a": "broken' }), true)
  assert.equal(finds('payload.a:*', { ...record, payload: '{"a": "broken' }), false)
  const escaped = { ...record, payload: '{"n\\u0061me":"M\\u00fcller"}' }
  assert.equal(finds('müller payload.name:Müller', escaped), true)
})

test.each([
  ['kind:', 6, 'a value'],
  ['kind:mail colour:red', 11, 'a field'],
  ['state:deed', 7, 'one of scheduled'],
  ['created:2026-11-01', 8, 'one of <'],
  ['created>yesterday', 9, 'a date'],
  ['created>2026-02-30', 9, 'a date'],
  ['created>2026-11-01T25:00Z', 9, 'a date'],
  ['attempt>=many', 10, 'a whole number'],
  ['ok "never closed', 4, 'closed'],
  ['"a \\n b"', 4, 'a backslash'],
  ['kind:a*b', 8, 'a space'],
  ['kind:a**', 8, 'one *'],
  ['a"b"', 2, 'a space'],
  ['"a"b', 4, 'a space'],
  ['- a', 2, 'a word'],
  ['payload..a:1', 9, 'a name'],
  ['payload>3', 8, '":"'],
  ['error:a*', 7, 'finds text anywhere'],
  ['error.group:boom', 13, '16 hexadecimal digits'],
  ['error.group:0123456789abcde*', 13, '16 hexadecimal digits'],
  ['""', 3, 'text'],
  ['https://example.com', 1, 'quotes around'],
])('%s is refused with the position of the mistake', (search, column, expected) => {
  const refuses = (error: unknown) => {
    assert.ok(isSignalboxError(error, 'invalid_argument'))
    assert.equal(error.details.column, column)
    assert.ok(String(error.details.expected).includes(expected), error.message)
    assert.ok(error.message.includes(`column ${column}`))
    return true
  }
  assert.throws(() => parseSearch(search), refuses)
})

test('a search that is too long, or not a text, is refused', () => {
  for (const search of ['a '.repeat(51), 'a'.repeat(2_001), '\ud800', 5, null, undefined])
    assert.throws(() => parseSearch(search), { code: 'invalid_argument' })
  assert.equal(parseSearch('a '.repeat(50)).length, 50)
})

const words = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
const spiky = fc.string({ unit: fc.constantFrom(...'a-* ":<>=.\\\n\tpayload'), minLength: 1, maxLength: 8 })
const text = fc.oneof(words, spiky)
test('neither a term nor its opposite finds sealed or redacted values', () => {
  const sealed = { ...record, payload: encodeSealed(record.id, Buffer.from('Ann')), error: null }
  for (const search of ['payload.order.id:42', '-payload.order.id:42', 'Ann', '-Ann', '-payload.order:*'])
    assert.equal(finds(search, sealed), false, search)
  for (const search of ['welcome', '-kind:other', 'payload:*', '-error:*'])
    assert.equal(finds(search, sealed), true, search)

  const hiddenAs = '[hidden]'
  const payload = JSON.stringify({ name: 'Ann', card: hiddenAs, list: [hiddenAs, 'seen'] })
  const hidden = { ...record, payload, error: JSON.stringify({ message: hiddenAs, code: 'E' }), hiddenAs }
  const unknown = [
    'hidden',
    '4111',
    'payload.card:4111',
    'payload.card:"["*',
    'payload.card.number:*',
    'error:x',
  ]
  for (const search of [...unknown, 'payload.list:other'])
    for (const sign of ['', '-']) assert.equal(finds(sign + search, hidden), false, sign + search)
  for (const search of ['ann', 'card', 'payload.card:*', 'payload.list:seen', '-payload.name:Bob', 'error:e'])
    assert.equal(finds(search, hidden), true, search)
  // Without anything hidden it is text like any other.
  assert.equal(finds('-payload.card:4111 hidden', { ...hidden, hiddenAs: undefined! }), true)
})

const negated = fc.boolean()
const pattern = fc.oneof(fc.record({ text, prefix: fc.boolean() }), fc.constant({ text: '', prefix: true }))
const instant = fc.oneof(
  fc.record({ at: fc.integer({ min: 0, max: 253_402_300_799_999 }) }),
  fc.record({ at: fc.integer({ min: 0, max: 40_000 }).map((day) => day * 86_400_000) }),
  fc.record({ fromNowMs: fc.integer({ min: -3_155_760_000_000, max: 3_155_760_000_000 }) }),
  fc.record({ fromNowMs: fc.integer({ min: -1_000, max: 1_000 }).map((hours) => hours * 3_600_000) }),
)
const term: fc.Arbitrary<SearchTerm> = fc.oneof(
  fc.record({ field: fc.constant('text' as const), negated, text }),
  fc.record({ field: fc.constantFrom(...nameFields), negated, pattern }),
  fc.record({
    field: fc.constant('state' as const),
    negated,
    state: fc.constantFrom<JobState>(...jobStates),
  }),
  fc.record({
    field: fc.constantFrom(...instantFields),
    negated,
    comparison: fc.constantFrom(...comparisons),
    instant,
  }),
  fc.record({
    field: fc.constant('attempt' as const),
    negated,
    comparison: fc.constantFrom('=' as const, ...comparisons),
    count: fc.integer({ min: 0, max: 999_999 }),
  }),
  fc.record({ field: fc.constant('error' as const), negated, text: fc.oneof(text, fc.constant(null)) }),
  fc.record({
    field: fc.constant('error.group' as const),
    negated,
    fingerprint: fc.stringMatching(/^[0-9a-f]{16}$/),
  }),
  fc.record({
    field: fc.constant('payload' as const),
    negated,
    path: fc.array(fc.oneof(text, fc.constant('')), { maxLength: 4 }),
    pattern: fc.oneof(pattern, fc.constant({ text: '', prefix: false })),
  }),
)

test('a formatted search parses to the same terms', () => {
  fc.assert(
    fc.property(fc.array(term, { maxLength: 8 }), (terms) => {
      // fast-check's records have no prototype.
      assert.deepEqual(parseSearch(formatSearch(terms)), structuredClone(terms))
    }),
    { numRuns: 400 },
  )
})

test('any text parses or is refused with a column, and parses the same after formatting', () => {
  const typed = fc.oneof(
    spiky,
    fc
      .array(
        fc.constantFrom(
          'kind:',
          'a',
          '"',
          '*',
          '-',
          ' ',
          'created>',
          '-2h',
          'payload.',
          '.',
          ':',
          '\\',
          'state:dead',
        ),
      )
      .map((parts) => parts.join('')),
  )
  fc.assert(
    fc.property(typed, (search) => {
      let terms: readonly SearchTerm[]
      try {
        terms = parseSearch(search)
      } catch (error) {
        assert.ok(isSignalboxError(error, 'invalid_argument'))
        const { column } = error.details as { column: number }
        assert.ok(column >= 1 && column <= search.length + 1)
        return
      }
      const written = formatSearch(terms)
      assert.deepEqual(parseSearch(written), terms)
      assert.equal(formatSearch(parseSearch(written)), written)
    }),
    { numRuns: 600 },
  )
})
