import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createRedactor, noRedactor } from './redactjob.ts'

const shown = (paths: readonly string[], payload: unknown) => createRedactor(paths).payload(payload)

test('a path is the end of the way to a value, through lists and whatever its case', () => {
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

test('names that objects have by themselves are names like any other', () => {
  const payload = JSON.parse('{"__proto__":{"a":1},"constructor":2}') as unknown
  assert.equal(JSON.stringify(shown(['a'], payload)), '{"__proto__":{"a":"[redacted]"},"constructor":2}')
  assert.equal(JSON.stringify(shown(['toString'], payload)), JSON.stringify(payload))
})

test('a value that is deeper than any that was taken is hidden, not walked for ever', () => {
  let deep: unknown = 'end'
  for (let level = 0; level < 20_000; level++) deep = [deep]
  assert.doesNotMatch(JSON.stringify(shown(['x'], deep)), /end/)
})

test('without paths nothing is looked at, and what is no path is refused', () => {
  assert.equal(createRedactor([]), noRedactor)
  for (const path of ['', 'a..b', '.a', 'a.', ' a', 5, 'a.'.repeat(20).concat('a'), 'a'.repeat(101)])
    assert.throws(() => createRedactor([path as string]), { code: 'invalid_argument' })
  assert.throws(() => createRedactor(Array.from({ length: 201 }, () => 'a')), { code: 'invalid_argument' })
})
