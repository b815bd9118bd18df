import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createFakeClock } from '../core/fake-clock.ts'
import { Fresh } from './fresh-answer.ts'

function stage() {
  const clock = createFakeClock()
  const readings: PromiseWithResolvers<string>[] = []
  const fresh = new Fresh(
    () => {
      const reading = Promise.withResolvers<string>()
      readings.push(reading)
      return reading.promise
    },
    { clock, maxAgeMs: 2_000, deadlineMs: 5_000 },
  )
  return { clock, readings, fresh }
}

test('concurrent callers share one reading, and it is used until it is too old', async () => {
  const { clock, readings, fresh } = stage()
  const both = Promise.all([fresh.get(), fresh.get()])
  readings[0]!.resolve('a')
  assert.deepEqual(await both, ['a', 'a'])
  clock.advance(1_999)
  assert.equal(fresh.get(), 'a')
  assert.equal(readings.length, 1)
  clock.advance(1)
  const next = fresh.get()
  readings[1]!.resolve('b')
  assert.equal(await next, 'b')
})

test('the age of an answer counts from its question', async () => {
  const { clock, readings, fresh } = stage()
  const slow = fresh.get()
  clock.advance(1_500)
  readings[0]!.resolve('a')
  await slow
  clock.advance(500)
  void fresh.get()
  assert.equal(readings.length, 2)
})

test('an answer to a question from before a change is not used after it', async () => {
  const { readings, fresh } = stage()
  const before = fresh.get()
  fresh.forget()
  const after = fresh.get()
  readings[1]!.resolve('new')
  assert.equal(await after, 'new')
  readings[0]!.resolve('old')
  assert.equal(await before, 'old')
  assert.equal(fresh.get(), 'new', 'a late answer to an old question was kept')
})

test('when the store fails there is no answer, not even an old one, and the next caller asks again', async () => {
  const { clock, readings, fresh } = stage()
  const first = fresh.get()
  readings[0]!.resolve('a')
  await first
  clock.advance(2_000)
  const second = fresh.get()
  readings[1]!.reject(new Error('password=hunter2'))
  await assert.rejects(Promise.resolve(second), (error: Error & { code?: string }) => {
    assert.equal(error.code, 'store_unavailable')
    assert.doesNotMatch(error.message, /hunter2/)
    return true
  })
  const third = fresh.get()
  readings[2]!.resolve('c')
  assert.equal(await third, 'c')
})

test('a question that the store does not answer ends in time', async () => {
  const { clock, readings, fresh } = stage()
  const hung = fresh.get()
  clock.advance(5_000)
  await assert.rejects(Promise.resolve(hung), { code: 'store_unavailable' })
  const again = fresh.get()
  assert.equal(readings.length, 2)
  readings[1]!.resolve('a')
  await again
  assert.equal(clock.timerCount, 0)
})
