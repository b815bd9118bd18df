import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { JobStore, StoreTransaction, TransactOptions, Verdict } from '../job-store.ts'
import { createTransactionGroups } from './transaction-groups.ts'

const options: TransactOptions = { timeoutMs: 0 }
const aVerdict = (jobId: string): Verdict => ({
  jobId,
  token: '1.0123456789abcdef',
  state: 'completed',
  attempt: 1,
  handBackCount: 0,
  snoozeCount: 0,
  delayMs: 0,
  ranMs: null,
  result: null,
  error: null,
})

/** Runs the works of a group one after the other, as a store does with savepoints, and keeps what was asked of it. */
function aStore({ fail }: { fail?: () => Error | undefined } = {}) {
  const groups: { size: number; options: TransactOptions }[] = []
  const written: string[] = []
  const transactAll: JobStore['transactAll'] = async (works, options) => {
    groups.push({ size: works.length, options })
    const answers: (undefined | { error: unknown })[] = []
    for (const work of works) {
      const tx: StoreTransaction = {
        query: async (sql) => {
          written.push(sql)
          return { rows: [], rowCount: 0 }
        },
        sql: async () => ({ rows: [], rowCount: 0 }),
        raw: {},
      }
      answers.push(
        await work(tx).then(
          () => undefined,
          (error: unknown) => ({ error }),
        ),
      )
    }
    const error = fail?.()
    if (error) throw error
    return answers
  }
  return { transactAll, groups, written }
}

test('calls of one turn share a commit, up to the size of the group', async () => {
  const store = aStore()
  const groups = createTransactionGroups(store)
  const runs = Array.from({ length: 25 }, (_, n) => groups.run(10, async () => aVerdict(`${n}`), options))
  await Promise.all(runs)
  assert.deepEqual(
    store.groups.map(({ size }) => size),
    [10, 10, 5],
  )
})

test('a single call does not wait for others', async () => {
  const store = aStore()
  const groups = createTransactionGroups(store)
  await groups.run(50, async () => aVerdict('1'), options)
  await groups.run(50, async () => aVerdict('2'), options)
  assert.deepEqual(
    store.groups.map(({ size }) => size),
    [1, 1],
  )
})

test('a member that fails gets its error alone', async () => {
  const groups = createTransactionGroups(aStore())
  const outcomes = await Promise.allSettled(
    [1, 2, 3].map((n) =>
      groups.run(
        10,
        async () => {
          if (n === 2) throw new Error('no money')
          return aVerdict(`${n}`)
        },
        options,
      ),
    ),
  )
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
})

test('when the commit fails, all its members get the error, and the next group continues', async () => {
  let failures = 1
  const groups = createTransactionGroups(
    aStore({ fail: () => (failures-- > 0 ? new Error('connection lost') : undefined) }),
  )
  const run = () => groups.run(2, async () => aVerdict('1'), options)
  const outcomes = await Promise.allSettled([run(), run(), run()])
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['rejected', 'rejected', 'fulfilled'],
  )
})

test('a group may take as long as its member with the longest time-out; 0 leaves it to the engine', async () => {
  const store = aStore()
  const groups = createTransactionGroups(store)
  const run = (timeoutMs: number) => groups.run(10, async () => aVerdict('1'), { timeoutMs })
  await Promise.all([run(100), run(300), run(200)])
  await Promise.all([run(100), run(0)])
  assert.deepEqual(
    store.groups.map(({ options }) => options.timeoutMs),
    [300, 0],
  )
})

test('a member that hangs is removed when its signal aborts, and does not delay the others', async () => {
  const store = aStore()
  const groups = createTransactionGroups(store)
  const controller = new AbortController()
  const { promise: begun, resolve: begins } = Promise.withResolvers<void>()
  const hanging = groups.run(
    10,
    () => {
      begins()
      return new Promise(() => undefined)
    },
    { timeoutMs: 0, signal: controller.signal },
  )
  const late = groups.run(10, () => assert.fail('it must not begin'), {
    timeoutMs: 0,
    signal: controller.signal,
  })
  const neighbour = groups.run(
    10,
    async (tx) => {
      await tx.query('INSERT neighbour')
      return aVerdict('2')
    },
    options,
  )
  await begun
  controller.abort(new Error('timed out'))
  await assert.rejects(hanging, /timed out/)
  await assert.rejects(late, /timed out/)
  await neighbour
  assert.deepEqual(store.written, ['INSERT neighbour'])
})
