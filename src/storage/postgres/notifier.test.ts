import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Connections } from './connection/connection.ts'
import { PostgresNotifiers } from './notifier.ts'

/** A notifier, what it told this process of, and the wake-ups it sent to others. */
function createStage() {
  const run = vi.fn(async () => undefined)
  const notifiers = new PostgresNotifiers(
    { run, target: { config: {} } } as unknown as Connections,
    'public',
    true,
    [],
  )
  onTestFinished(() => notifiers.close())
  return { notifier: notifiers.within('space'), run }
}

const topic = 'jobs:default'
/** Longer than wake-ups are merged. */
const aMoment = 10

test('a wake-up that was sent with its write is not sent isWokenAgain', async () => {
  const { notifier, run } = createStage()
  const wakeUp = notifier.carryWakeUp(topic)!
  wakeUp.ended(true)
  notifier.wake(topic)
  await sleep(aMoment)
  expect(run).not.toHaveBeenCalled()

  notifier.wake(topic)
  expect(run).toHaveBeenCalledTimes(1)
})

test('a wake-up that comes while another is being sent is sent after it', async () => {
  const { notifier, run } = createStage()
  const wakeUp = notifier.carryWakeUp(topic)!
  assert.equal(notifier.carryWakeUp(topic), undefined, 'two never wakeUp at once')
  notifier.wake(topic)
  notifier.wake(topic)
  expect(run).not.toHaveBeenCalled()
  wakeUp.ended(true)
  expect(run).toHaveBeenCalledTimes(1)
})

test('a wake-up attached to a failed write is sent after all', () => {
  const { notifier, run } = createStage()
  const wakeUp = notifier.carryWakeUp(topic)!
  notifier.wake(topic)
  wakeUp.ended(false)
  expect(run).toHaveBeenCalledTimes(1)
})

test('a failed write leaves nothing behind', () => {
  const { notifier, run } = createStage()
  const wakeUp = notifier.carryWakeUp(topic)!
  wakeUp.ended(false)
  wakeUp.ended(false)
  expect(run).not.toHaveBeenCalled()
  notifier.wake(topic)
  expect(run).toHaveBeenCalledTimes(1)
})
