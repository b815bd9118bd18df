import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { test } from 'vitest'
import { resolveLocksOptions } from '../../locks/index.ts'
import type { LockTimes } from '../../locks/rules/index.ts'
import type { ScriptRunner } from './connection.ts'
import { Stepper } from './stepper.ts'

const times: LockTimes = resolveLocksOptions({ maxWaiters: 3 })
const reading = {
  whole: () => assert.fail('all of these are short'),
  quick: (revision: number) => revision,
}

test('steps of one turn on the same terms say those once, in the order in which they were taken', async () => {
  const { stepper, calls } = openStepper()
  const taken = [
    stepper.step(queueAt(1), 'acquire', ['a', '30000', '100'], times, undefined, reading),
    stepper.step(queueAt(2), 'acquire', ['b', '30000', '100'], times, undefined, reading),
    stepper.step(queueAt(3), 'acquire', ['c', '500', '100'], times, undefined, reading),
    stepper.step(queueAt(4), 'release', ['d', '7', 's00'], times, undefined, reading),
    stepper.step(queueAt(5), 'leave', ['e'], times, undefined, reading),
    stepper.step(queueAt(6), 'release', ['f', '8', 's00'], times, undefined, reading),
    stepper.step(queueAt(7), 'release', ['g', '9', 's00'], times, undefined, reading),
  ]
  await nextTurn()
  assert.equal(calls.length, 1)
  assert.deepEqual(calls[0]!.keys, ['1', '2', '3', '4', '5', '6', '7'])
  const acquires = ['acquires', '2', '30000', '100', 'a', 'b', 'acquires', '1', '500', '100', 'c']
  const releases = [
    'releases',
    '1',
    's00',
    'd',
    '7',
    'leave',
    'e',
    'releases',
    '2',
    's00',
    'f',
    '8',
    'g',
    '9',
  ]
  assert.deepEqual(calls[0]!.words, [...acquires, ...releases])
  calls[0]!.answer()
  assert.deepEqual(await Promise.all(taken), [0, 1, 2, 3, 4, 5, 6])
})

test('what those ask next who were answered first is sent before others are answered', async () => {
  const { stepper, calls } = openStepper()
  const told: string[] = []
  const pair = async (no: number) => {
    await stepper.step(queueAt(no), 'release', [`${no}`, '7', 's00'], times, undefined, reading)
    told.push(`answered ${no}, ${calls.length} calls`)
    await stepper.step(queueAt(no), 'release', [`${no}`, '8', 's00'], times, undefined, reading)
  }
  const asked = 40
  const pairs = Array.from({ length: asked }, (_, no) => pair(no))
  while (calls.length < 2) await nextTurn()
  const [first, second] = calls
  // Both answers come by one reading of the socket.
  first!.answer()
  second!.answer()
  while (told.length < asked) await nextTurn()
  const others = told.slice(first!.keys.length)
  assert.ok(others.length > 0)
  for (const one of others) assert.match(one, /, 3 calls$/)
  while (calls.length < 4) await nextTurn()
  calls[2]!.answer()
  calls[3]!.answer()
  await Promise.all(pairs)
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
