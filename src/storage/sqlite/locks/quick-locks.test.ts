import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, test, vi } from 'vitest'
import { resolveLocksOptions } from '../../../locks/index.ts'
import {
  type AcquireAsk,
  acquire,
  type LockTimes,
  type Rule,
  release,
  runNow,
  type Standing,
} from '../../../locks/rules/index.ts'
import { Connection } from '../connection/connection.ts'
import { migrations } from '../migrations/index.ts'
import * as leaseClock from './lease-clock.ts'
import { takeStep } from './lock-steps.ts'
import { acquireFree, releaseAlone } from './quick-locks.ts'
import { SqliteWaitQueue } from './wait-queue-rows.ts'

const wall = 1_700_000_000_000
const key = { operation: 'pull', resource: 'app:1.2' }
const times: LockTimes = resolveLocksOptions({ maxWaiters: 10 })
const success = { outcome: 'success', value: null, terminal: false } as const
const failure = { outcome: 'failure', value: '"no"', terminal: false } as const

afterEach(() => {
  vi.restoreAllMocks()
})

function askOf(node: string, more: Partial<AcquireAsk> = {}): AcquireAsk {
  return {
    ...{ node, requestId: 'r', wait: true, want: 'turn', ttlMs: 1_000, deadlineMs: null, isStreamed: false },
    ...more,
  } as AcquireAsk
}

/** Wait queues in memory, in a transaction that is never ended. */
function openQueues(): Connection {
  const db = new DatabaseSync(':memory:')
  for (const { statements } of migrations) for (const sql of statements) db.exec(sql)
  const connection = new Connection(db)
  connection.begin()
  return connection
}

function byRules<Answer>(connection: Connection, rule: Rule<Answer>, at: number): Answer {
  const rows = new SqliteWaitQueue(connection, 'default', key, at)
  const answer = runNow(rule, rows)
  rows.close()
  return answer
}

/** A wait queue that was used, and is free since then. */
function openUsed(): Connection {
  const connection = openQueues()
  const { standing } = byRules(connection, acquire(askOf('first'), times), wall)
  const token = (standing as { token: number }).token
  byRules(connection, release({ node: 'first', requestId: 'r', token }, success, times), wall + 1)
  return connection
}

function rowOf(connection: Connection): object {
  return { ...connection.get<object>('SELECT * FROM lock_queue') }
}

const scopeAt = (connection: Connection, at: number) => ({ connection, namespace: 'default', key, wall: at })

test('the short way leaves the same row, and answers the same, as the rules', () => {
  vi.spyOn(leaseClock, 'readLeaseClock').mockReturnValue(5_000)
  const [short, long] = [openUsed(), openUsed()]
  const taken = acquireFree(scopeAt(short, wall + 5), askOf('a'), times)!
  const granted = byRules(long, acquire(askOf('a'), times), wall + 5)
  assert.deepEqual(taken, granted)
  assert.deepEqual(rowOf(short), rowOf(long))

  const who = { node: 'a', requestId: 'r', token: (taken.standing as { token: number }).token }
  const end = { ...success, value: '{"image":"ä"}' }
  assert.deepEqual(
    releaseAlone(scopeAt(short, wall + 9), who, end, times),
    byRules(long, release(who, end, times), wall + 9),
  )
  assert.deepEqual(rowOf(short), rowOf(long))
})

test('whatever the rules have to decide is left to them, with nothing changed', () => {
  const clock = vi.spyOn(leaseClock, 'readLeaseClock').mockReturnValue(5_000)
  const connection = openUsed()
  const before = (at: number, ask = askOf('a'), its = times) => {
    const row = rowOf(connection)
    assert.equal(acquireFree(scopeAt(connection, at), ask, its), undefined)
    assert.deepEqual(rowOf(connection), row)
  }
  // Within the millisecond of its last change, and where operations exclude each other.
  before(wall + 1)
  before(wall + 2, askOf('a'), { ...times, conflicts: [['pull', 'push']] })
  // Held.
  const { standing } = acquireFree(scopeAt(connection, wall + 2), askOf('a'), times)!
  const { token } = standing as { token: number }
  before(wall + 3, askOf('b'))
  before(wall + 3, askOf('a'))

  const own = { node: 'a', requestId: 'r', token }
  const kept = (who: typeof own, end: typeof success | typeof failure, at: number) => {
    const row = rowOf(connection)
    assert.equal(releaseAlone(scopeAt(connection, at), who, end, times), undefined)
    assert.deepEqual(rowOf(connection), row)
  }
  kept(own, success, wall + 2)
  kept(own, failure, wall + 3)
  kept({ ...own, token: token - 1 }, success, wall + 3)
  kept({ ...own, requestId: 'other' }, success, wall + 3)
  clock.mockReturnValue(6_000)
  kept(own, success, wall + 3)
  clock.mockReturnValue(5_000)
  // Waited for.
  byRules(connection, acquire(askOf('b'), times), wall + 4)
  kept(own, success, wall + 5)

  // With an end that is kept for somebody, and after a lease that ran out, while the delay lasts.
  clock.mockReturnValue(6_000)
  byRules(connection, acquire(askOf('c', { wait: false }), { ...times, lockDelayMs: 500 }), wall + 6)
  before(wall + 7, askOf('c'))
})

test('who is refused writes nothing, neither a wait queue nor a token', () => {
  const clock = vi.spyOn(leaseClock, 'readLeaseClock').mockReturnValue(5_000)
  const connection = openUsed()
  const delayed = { ...times, lockDelayMs: 500 }
  const tryAt = (at: number, node: string) => {
    // A transaction of its own, in which nobody has taken tokens before.
    connection.commit()
    connection.begin()
    const before = connection.get<{ many: number }>('SELECT total_changes() AS many')!.many
    const ask = askOf(node, { wait: false })
    const { standing } = takeStep(connection, 'default', ['acquire', [key, ask, delayed]], at) as unknown as {
      standing: Standing
    }
    return {
      status: standing.status,
      writes: connection.get<{ many: number }>('SELECT total_changes() AS many')!.many - before,
    }
  }
  assert.equal(tryAt(wall + 2, 'a').status, 'granted')
  assert.deepEqual(tryAt(wall + 3, 'b'), { status: 'refused', writes: 0 })
  assert.deepEqual(tryAt(wall + 3, 'a'), { status: 'granted', writes: 0 })
  // The lease ran out, and until the delay is over nobody has it.
  clock.mockReturnValue(6_100)
  assert.equal(tryAt(wall + 1_100, 'b').status, 'refused')
  assert.deepEqual(tryAt(wall + 1_101, 'c'), { status: 'refused', writes: 0 })
})

test('a step takes the short way by itself, and the long one for a key that was never used', () => {
  const connection = openQueues()
  const run = vi.spyOn(connection, 'rows')
  const step = (at: number) => takeStep(connection, 'default', ['acquire', [key, askOf('a'), times]], at)
  const first = step(wall) as unknown as { standing: { token: number } }
  // The whole row, which only the rules read.
  const reads = () => run.mock.calls.filter(([sql]) => sql.includes('SELECT queue_id, attempt')).length
  assert.equal(reads(), 1)
  const end = { node: 'a', requestId: 'r', token: first.standing.token }
  takeStep(connection, 'default', ['release', [key, end, success, times]], wall + 1)
  const { standing } = step(wall + 2) as unknown as { standing: { status: string; token: number } }
  assert.equal(reads(), 1)
  assert.equal(standing.status, 'granted')
  assert.ok(standing.token > first.standing.token)
})
