import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { test } from 'vitest'
import { resolveLocksOptions } from '../../locks/index.ts'
import type { LockTimes } from '../../locks/rules/index.ts'
import type { ScriptRunner } from './connection.ts'
import { Stepper } from './stepper.ts'

const times: LockTimes = resolveLocksOptions({ maxWaiters: 3 })

test('steps of one turn share a script, up to a limit, in order', async () => {
  const { stepper, calls } = openStepper()
  const release = (no: number) => stepper.step(queueAt(no), 'release', [`${no}`, '7', 's00'], times)
  const taken = [
    stepper.step(queueAt(0), 'acquire', ['a', '30000', '100'], times),
    ...Array.from({ length: 24 }, (_, no) => release(no + 1)),
  ]
  await nextTurn()
  assert.deepEqual(
    calls.map(({ keys }) => keys.length),
    [24, 1],
  )
  const words = ['acquire', '', 'a', '30000', '100', 'release', '', '1', '7', 's00']
  assert.deepEqual(calls[0]!.words.slice(0, words.length), words)
  for (const call of calls) call.answer()
  const numbers = Array.from({ length: 24 }, (_, no) => no)
  assert.deepEqual(
    (await Promise.all(taken)).map(([, , revision]) => revision),
    [...numbers, 0],
  )
})

test('a step of a lone caller leaves before the turn ends, others gather while it is in flight', async () => {
  const { stepper, calls } = openStepper()
  const release = (no: number) => stepper.step(queueAt(no), 'release', [`${no}`, '7', 's00'], times)
  const first = release(0)
  await null
  const counts = () => calls.map(({ keys }) => keys.length)
  assert.deepEqual(counts(), [1])
  const others = [release(1)]
  await null
  others.push(release(2))
  assert.deepEqual(counts(), [1])
  await nextTurn()
  assert.deepEqual(counts(), [1, 2])
  for (const call of calls) call.answer()
  await Promise.all([first, ...others])
  const last = release(3)
  await null
  assert.deepEqual(counts(), [1, 2, 1])
  calls[2]!.answer()
  await last
})

/** Calls are answered by hand; what is answered to a step is its number in its call. */
function openStepper() {
  const calls: { keys: readonly string[]; words: readonly string[]; answer: () => void }[] = []
  const run: ScriptRunner['run'] = (_, keys, args) =>
    new Promise((resolve) => {
      const answer = () => resolve(keys.flatMap((_, no) => [-1, no]) as never)
      calls.push({ keys, words: args.slice(9), answer })
    })
  return { stepper: new Stepper({ run }, () => false), calls }
}

function queueAt(no: number) {
  return { key: `${no}`, shard: 0 }
}
