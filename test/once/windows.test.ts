import assert from 'node:assert/strict'
import { test } from 'vitest'
import { canonicalJson, digestParts, digestState, eventId } from '../../src/once/index.ts'
import { openStage } from './stage.ts'

const minute = 60_000

/** T0 A→B, T1 B→A, T2 A→B, T4 C→B, T6 B→C, in minutes: which of them are notified. */
async function notified(by: 'state' | 'last' | 'transition'): Promise<readonly boolean[]> {
  await using stage = openStage()
  const { once, clock } = stage
  const subject = ['crawler', '18:00-19:00', 'venue 1']
  const answers: boolean[] = []
  let at = 0
  for (const [minutes, from, state] of [
    [0, 'A', 'B'],
    [1, 'B', 'A'],
    [2, 'A', 'B'],
    [4, 'C', 'B'],
    [6, 'B', 'C'],
  ] as const) {
    clock.advance((minutes - at) * minute)
    at = minutes
    answers.push(!(await once.seen({ subject, state, from }, { by })).seen)
  }
  return answers
}

test('scenario 2: a state notified within five minutes is not notified again, whatever came between', async () => {
  assert.deepEqual(await notified('state'), [true, true, false, false, true])
})

test('by: "last" notifies every state except the one notified last', async () => {
  assert.deepEqual(await notified('last'), [true, true, true, false, true])
})

test('by: "transition" notifies each change from one state to another once', async () => {
  assert.deepEqual(await notified('transition'), [true, true, false, true, true])
})

test('states are compared by value, not by the order of their fields', async () => {
  await using stage = openStage()
  const seen = async (state: unknown) => (await stage.once.seen({ subject: ['v'], state })).seen
  assert.equal(await seen({ free: true, seats: [1, { a: 1, b: 2 }] }), false)
  assert.equal(await seen({ seats: [1, { b: 2, a: 1 }], free: true, note: undefined }), true)
  assert.equal(await seen({ free: true, seats: [{ a: 1, b: 2 }, 1] }), false)
  for (const state of [null, 'null', 0, '0', false, '', [], {}]) assert.equal(await seen(state), false)
})

test('subjects whose parts join to the same text are different subjects', async () => {
  await using stage = openStage()
  const subjects = [['a', 'b'], ['a:b'], ['ab'], ['a', 'b', 'c'], ['a', 'bc'], ['1:a', 'b'], ['a1:b']]
  for (const by of ['state', 'last', 'transition'] as const)
    for (const subject of subjects)
      assert.equal((await stage.once.seen({ subject, state: 'c', from: null }, { by })).seen, false)
})

test('an invalid sighting is refused', async () => {
  await using stage = openStage()
  const { once } = stage
  const refused = { code: 'invalid_argument' }
  const many = Array.from({ length: 17 }, (_, n) => `${n}`)
  for (const subject of [[], many, 'venue', [''], [1], ['a\n'], undefined])
    await assert.rejects(once.seen({ subject: subject as string[], state: 1 }), refused)
  const sighting = { subject: ['v'], state: 1 }
  await assert.rejects(once.seen(sighting, { by: 'transition' }), refused)
  await assert.rejects(once.seen(sighting, { by: 'hash' as 'state' }), refused)
  await assert.rejects(once.seen(sighting, { windowMs: 0 }), refused)
  await assert.rejects(once.seen({ subject: ['v'], state: Number.NaN }), refused)
  await assert.rejects(once.seen({ subject: ['v'], state: 'x'.repeat(300_000) }), { code: 'too_large' })
  await assert.rejects(once.seen({ ...sighting, fro: 1 } as never), refused)
  assert.equal((await once.seen({ subject: many.slice(1), state: 1 })).seen, false)
  assert.equal((await once.seen({ ...sighting, from: null }, { by: 'transition' })).seen, false)
})

test('all observers of a change get the same event id, and another change gets another', () => {
  const event = {
    source: 's',
    timeSlot: '18:00-19:00',
    venueId: 'v',
    from: { a: 1, b: 2 },
    to: { free: true },
  }
  const id = eventId(event)
  assert.match(id, /^[0-9a-f]{64}$/)
  assert.equal(eventId({ ...event, from: { b: 2, a: 1 } }), id)
  const others = [
    { ...event, source: 's:18' },
    { ...event, source: 's1', timeSlot: '8:00-19:00' },
    { ...event, from: event.to, to: event.from },
    { ...event, to: null },
    { ...event, at: 'run 7' },
    { ...event, at: 'run 8' },
    { ...event, at: 7 },
    { ...event, at: '7' },
  ]
  assert.equal(new Set([id, ...others.map(eventId)]).size, others.length + 1)
  for (const at of ['', Number.NaN, null, {}])
    assert.throws(() => eventId({ ...event, at: at as string }), { code: 'invalid_argument' })
})

test('a name made of parts never changes', () => {
  assert.equal(digestParts([]), 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  // SHA-256 of "2:ä3:a:b": lengths are counted in bytes.
  assert.equal(digestParts(['ä', 'a:b']), '9190ac0f381cbb10d474b993834d83f44463ec987b1f21b41d20e986b4e7d892')
  assert.equal(
    digestState('state', { b: [1, null], a: 'ä' }),
    '5d27d4d9adde472ba89036703c4041178c92a8b8fa09fb31028645756d58b500',
  )
})

test('a canonical form sorts keys and leaves out ignored fields, also within arrays', () => {
  const state = {
    z: 1,
    updatedAt: 5,
    offers: [
      { id: 2, seenAt: 9 },
      { seenAt: 1, id: 1 },
    ],
    deep: { updatedAt: 6 },
  }
  assert.equal(
    canonicalJson('state', state, ['updatedAt', 'offers.seenAt']),
    '{"deep":{"updatedAt":6},"offers":[{"id":2},{"id":1}],"z":1}',
  )
  assert.equal(canonicalJson('state', undefined), 'null')
  assert.equal(canonicalJson('state', 'ä'), '"ä"')
  assert.equal(canonicalJson('state', { '10': 1, '9': 2, B: 3, a: 4 }), '{"10":1,"9":2,"B":3,"a":4}')
})
