import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Connections } from './connection/connection.ts'
import { PostgresBells } from './notifier.ts'

/** A bell, what it told this process of, and the rings it sent to others. */
function createStage() {
  const run = vi.fn(async () => undefined)
  const bells = new PostgresBells({ run, target: { config: {} } } as unknown as Connections, 'public', [])
  onTestFinished(() => bells.close())
  return { bell: bells.within('space'), run }
}

const topic = 'jobs:default'
/** Longer than rings are merged. */
const aMoment = 10

test('a ring that rode behind its write is not sent again', async () => {
  const { bell, run } = createStage()
  const ride = bell.ride(topic)!
  ride.over(true)
  bell.ring(topic)
  await sleep(aMoment)
  expect(run).not.toHaveBeenCalled()

  bell.ring(topic)
  expect(run).toHaveBeenCalledTimes(1)
})

test('one that comes while another rides is sent once that is over', async () => {
  const { bell, run } = createStage()
  const ride = bell.ride(topic)!
  assert.equal(bell.ride(topic), undefined, 'two never ride at once')
  bell.ring(topic)
  bell.ring(topic)
  expect(run).not.toHaveBeenCalled()
  ride.over(true)
  expect(run).toHaveBeenCalledTimes(1)
})

test('one that was taken for the ring of a write that failed is sent after all', () => {
  const { bell, run } = createStage()
  const ride = bell.ride(topic)!
  bell.ring(topic)
  ride.over(false)
  expect(run).toHaveBeenCalledTimes(1)
})

test('a write that failed leaves nothing behind', () => {
  const { bell, run } = createStage()
  const ride = bell.ride(topic)!
  ride.over(false)
  ride.over(false)
  expect(run).not.toHaveBeenCalled()
  bell.ring(topic)
  expect(run).toHaveBeenCalledTimes(1)
})
