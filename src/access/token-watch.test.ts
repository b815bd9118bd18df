import assert from 'node:assert/strict'
import { test, vi } from 'vitest'
import type { SignalboxError } from '../core/errors.ts'
import { createFakeClock } from '../core/fake-clock.ts'
import { TokenWatch } from './token-watch.ts'

function stage() {
  const clock = createFakeClock()
  const asked: (readonly string[])[] = []
  const ended = new Set<string>()
  const known: string[] = []
  const store = { broken: false }
  const watch = new TokenWatch({
    clock,
    everyMs: 2_000,
    unsureMs: 30_000,
    onEnded: (id) => known.push(id),
    async live(ids) {
      asked.push(ids)
      await new Promise(setImmediate)
      if (store.broken) throw new Error('cut')
      return new Set(ids.filter((id) => !ended.has(id)))
    },
  })
  /** Lets the next round happen, to its end: the timer for the one after it is set then. */
  const round = async () => {
    clock.advance(2_000)
    while (clock.timerCount === 0 && watch.size > 0) await new Promise(setImmediate)
  }
  return { clock, asked, ended, known, store, watch, round }
}

test('each stream of a token is notified once when the token ends, and no other stream is', async () => {
  const { watch, ended, round } = stage()
  const told: string[] = []
  const note = (who: string) => (reason: SignalboxError) => told.push(`${who} ${reason.code}`)
  watch.watch('a', note('a1'))
  watch.watch('a', note('a2'))
  watch.watch('b', note('b'))
  const stop = watch.watch('a', note('a3'))
  stop()
  stop()
  await round()
  assert.deepEqual(told, [])
  ended.add('a')
  await round()
  assert.deepEqual(told, ['a1 unauthorized', 'a2 unauthorized'])
  ended.add('b')
  await round()
  await round()
  assert.deepEqual(told, ['a1 unauthorized', 'a2 unauthorized', 'b unauthorized'])
})

test('a thousand streams of two tokens cost one timer and one question per round, and none at the end', async () => {
  const { watch, asked, clock, round } = stage()
  const stops = Array.from({ length: 1_000 }, (_, i) => watch.watch(i % 2 ? 'a' : 'b', () => {}))
  assert.equal(clock.timerCount, 1)
  await round()
  await round()
  assert.deepEqual(asked, [
    ['b', 'a'],
    ['b', 'a'],
  ])
  for (const stop of stops) stop()
  clock.advance(2_000)
  assert.deepEqual([clock.timerCount, watch.size, asked.length], [0, 0, 2])
})

test('a token in use by requests is checked together with waiting ones, while it is used', async () => {
  const { watch, asked, clock, round } = stage()
  const stop = watch.watch('a', () => {})
  watch.use('b', clock.now())
  assert.deepEqual([watch.confirmedAt('a'), watch.confirmedAt('b')], [Number.NEGATIVE_INFINITY, 0])
  await round()
  assert.deepEqual([watch.confirmedAt('a'), watch.confirmedAt('b')], [2_000, 2_000])
  await round()
  assert.deepEqual(asked, [['a', 'b'], ['a']])
  assert.equal(watch.confirmedAt('b'), Number.NEGATIVE_INFINITY)
  stop()
})

test('a token revoked on this server ends its waits without a question to the store', () => {
  const { watch, asked, known } = stage()
  const told: string[] = []
  watch.watch('a', ({ code }) => told.push(code))
  watch.end('b')
  watch.end('a')
  assert.deepEqual([told, known, asked, watch.size], [['unauthorized'], ['a'], [], 0])
})

test('without the store, streams stay for a while, and then end because their tokens cannot be checked', async () => {
  const { watch, store, round, clock } = stage()
  const told: SignalboxError[] = []
  watch.watch('a', (reason) => told.push(reason))
  store.broken = true
  for (let i = 0; i < 14; i++) await round()
  assert.equal(clock.now(), 28_000)
  assert.deepEqual(told, [])
  store.broken = false
  await round()
  store.broken = true
  for (let i = 0; i < 14; i++) await round()
  assert.deepEqual(told, [], 'the time counts from the last good answer')
  await round()
  assert.deepEqual(
    told.map(({ code }) => code),
    ['store_unavailable'],
  )
})

test('a token that is known to have ended is checked at once', async () => {
  const { watch, ended } = stage()
  const told: string[] = []
  watch.watch('a', ({ code }) => told.push(code))
  await watch.check('unwatched')
  ended.add('a')
  await Promise.all([watch.check('a'), watch.check('a')])
  assert.deepEqual(told, ['unauthorized'])
})

test('a stream that fails to close does not keep the others open', async () => {
  const { watch, ended } = stage()
  const print = vi.spyOn(console, 'error').mockImplementation(() => {})
  const told: string[] = []
  watch.watch('a', () => {
    throw new Error('stuck')
  })
  watch.watch('a', ({ code }) => told.push(code))
  ended.add('a')
  await watch.check('a')
  assert.deepEqual(told, ['unauthorized'])
  assert.equal(print.mock.calls.length, 1)
  print.mockRestore()
})

test('a closed watch calls no watcher and leaves no timer', async () => {
  const { watch, ended, clock } = stage()
  const told: string[] = []
  watch.watch('a', ({ code }) => told.push(code))
  ended.add('a')
  const checking = watch.check('a')
  watch.close()
  await checking
  assert.deepEqual(told, [])
  assert.equal(clock.timerCount, 0)
  watch.watch('a', () => {})
  assert.equal(clock.timerCount, 0)
})
