import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Contention,
  type ContentionSnapshot,
  createContention,
  noContention,
} from 'signalbox/contention'
import { test } from 'vitest'
import { inGrowingLeases } from '../support/spans.ts'

/** Blocks the thread, as careless code does. */
function block(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

/** Sleeps, and answers by how much too long. */
async function sleepLate(ms: number): Promise<number> {
  const begunAt = performance.now()
  await sleep(ms)
  return performance.now() - begunAt - ms
}

function cellOf({ matrix }: ContentionSnapshot, waiter: string, holder: string): number {
  return matrix.find((cell) => cell.waiter === waiter && cell.holder === holder)?.ms ?? 0
}

/** A lane in which one has its turn at a time, in the order they came. */
function createLane(contention: Contention, lane: string) {
  let last: Promise<unknown> = Promise.resolve()
  return (name: string, work: () => unknown, what?: string) => {
    const ticket = contention.begin(contention.kind(name, { lane }), what)
    const turn = last.then(async () => {
      contention.enter(ticket)
      try {
        await work()
      } finally {
        contention.leave(ticket)
      }
    })
    last = turn
    return turn
  }
}

test('the matrix names a planted holder of 50 ms first, whether it blocks the thread or only the lane', async () => {
  await inGrowingLeases(50, async (holdMs) => {
    for (const hold of [() => block(holdMs), () => sleep(holdMs)]) {
      const contention = createContention()
      contention.start()
      try {
        const lane = createLane(contention, 'registry')
        for (let round = 0; round < 5; round++) {
          const turns = [
            lane('heartbeat', () => undefined),
            lane('planted', hold, 'the one with the secret'),
            ...Array.from({ length: 20 }, () => lane('dispatch', () => undefined)),
          ]
          await Promise.all(turns)
        }

        const snapshot = contention.snapshot()
        const [first] = snapshot.matrix
        assert.deepEqual([first!.waiter, first!.holder], ['dispatch', 'planted'])
        assert.equal(snapshot.holders[0]!.holder, 'planted')
        // 100 dispatches waited for so long each; the time of the host is charged to the host.
        assert.ok(first!.ms >= 90 * holdMs, `${first!.ms}`)
        assert.deepEqual([snapshot.slowest.at(0)!.kind, snapshot.kinds[0]!.kind], ['dispatch', 'dispatch'])
        assert.ok(
          snapshot.slowest.some(({ kind, what }) => kind === 'planted' && what === 'the one with the secret'),
        )
      } finally {
        contention.stop()
      }
    }
  })
}, 60_000)

test('the garbage collector is named for the time it took', async () => {
  const contention = createContention()
  contention.start()
  try {
    const lane = createLane(contention, 'lane')
    // A large heap, so that a collection of all of it takes long.
    const heap = Array.from({ length: 600_000 }, (_, number) => ({ number, text: `${number}` }))
    // The waiter is in the lane while another turn collects garbage.
    const collecting = Array.from({ length: 10 }, () => lane('work', () => globalThis.gc!()))
    await Promise.all(collecting)
    assert.equal(heap.length, 600_000)
    // Garbage collections are reported a round later.
    await sleep(30)

    const snapshot = contention.snapshot()
    const gc = snapshot.kinds.find(({ kind }) => kind === 'gc')!
    assert.ok(gc.hold.count >= 10, `${gc.hold.count}`)
    assert.ok(cellOf(snapshot, 'work', 'gc') > gc.hold.maxMs, `${cellOf(snapshot, 'work', 'gc')} ms`)
    assert.ok(cellOf(snapshot, 'work', 'gc') > cellOf(snapshot, 'work', 'work'))
  } finally {
    contention.stop()
  }
})

test('untracked code appears as the event loop, and a late timer shows it without other waiters', async () => {
  const contention = createContention()
  contention.start()
  try {
    await sleep(25)
    const kind = contention.kind('query', { lane: 'pool', size: 5 })
    const ticket = contention.begin(kind)
    block(80)
    await sleep(1)
    contention.enter(ticket)
    await sleep(25)

    const snapshot = contention.snapshot()
    assert.ok(cellOf(snapshot, 'query', 'event-loop') >= 60, `${cellOf(snapshot, 'query', 'event-loop')} ms`)
    assert.ok(cellOf(snapshot, 'timer', 'event-loop') >= 50, `${cellOf(snapshot, 'timer', 'event-loop')} ms`)
  } finally {
    contention.stop()
  }
})

test('a turn that blocks the thread appears under its own name, not as the event loop', async () => {
  const contention = createContention()
  contention.start()
  try {
    // What a machine that stands still takes outside of the turn is the event loop's.
    let lateMs = await sleepLate(25)
    const rebuild = contention.kind('rebuild', { lane: 'registry', sync: true })
    const turn = contention.begin(rebuild)
    contention.enter(turn)
    block(80)
    contention.leave(turn)
    lateMs += await sleepLate(25)

    const snapshot = contention.snapshot()
    assert.ok(cellOf(snapshot, 'timer', 'rebuild') >= 50, `${cellOf(snapshot, 'timer', 'rebuild')} ms`)
    const loopMs = cellOf(snapshot, 'timer', 'event-loop')
    assert.ok(loopMs < 30 + lateMs, `${loopMs} ms, of which ${lateMs} stood still`)
  } finally {
    contention.stop()
  }
})

test('hundreds of thousands of records need no additional memory', () => {
  const contention = createContention()
  const kinds = Array.from({ length: 40 }, (_, number) =>
    contention.kind(`kind ${number}`, { lane: `lane ${number % 4}` }),
  )
  const record = (count: number, from: number) => {
    for (let number = 0; number < count; number++) {
      const at = from + number * 0.05
      // A third of them waited, so that the matrix is at work, too.
      const waited = number % 3 === 0 ? 5 : 0
      contention.turn(kinds[number % 40]!, at - waited, at, at + 0.04, `turn ${number}`)
      const ticket = contention.begin(kinds[number % 40]!)
      if (number % 5 !== 0) contention.enter(ticket)
      contention.leave(ticket)
      contention.keys.queued({ namespace: 'n', operation: 'o', resource: `r${number}` }, 'node', '1')
    }
  }
  const used = () => {
    globalThis.gc!()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
  record(100_000, 1_000)
  contention.snapshot()
  const before = used()
  record(300_000, 10_000)
  const grown = used() - before

  assert.ok(grown < 600_000, `${grown} bytes`)
  const counted = contention.snapshot().kinds.reduce((sum, { wait }) => sum + wait.count, 0)
  assert.equal(counted, 800_000)
})

test('slow waits of a kind make one warning per interval, with count, maximum and holder', async () => {
  const contention = createContention({ warnMs: 10, warnEveryMs: 1_000 })
  const reported: unknown[] = []
  contention.events.on('slow', (wait) => reported.push(wait))
  const [dispatch, rebuild] = [
    contention.kind('dispatch', { lane: 'registry' }),
    contention.kind('rebuild', { lane: 'registry' }),
  ]
  contention.turn(rebuild, 0, 0, 50)
  for (const waitMs of [9, 50, 20]) contention.turn(dispatch, 50 - waitMs, 50, 50, 'task 7')
  contention.turn(rebuild, 1_900, 1_900, 2_000)
  contention.turn(dispatch, 1_900, 2_000, 2_000)
  contention.snapshot()
  assert.equal(reported.length, 1)
  contention.turn(dispatch, 3_900, 4_000, 4_000)
  contention.snapshot()

  const at = (ms: number) => Math.round(performance.timeOrigin + ms)
  assert.deepEqual(reported, [
    {
      ...{ kind: 'dispatch', count: 2, aboveMs: 10, withinMs: 1_950, longestMs: 50, what: 'task 7' },
      ...{ at: at(50), holders: [{ holder: 'rebuild', ms: 50 }] },
    },
    {
      ...{ kind: 'dispatch', count: 1, aboveMs: 10, withinMs: 2_000, longestMs: 100, what: null },
      ...{ at: at(2_000), holders: [{ holder: 'rebuild', ms: 100 }] },
    },
  ])
})

test('a stopping recorder gives the warnings that are still due', () => {
  const contention = createContention({ warnMs: 10 })
  const reported: { kind: string; count: number }[] = []
  contention.events.on('slow', ({ kind, count }) => reported.push({ kind, count }))
  contention.start()
  const now = performance.now()
  contention.turn(contention.kind('mine'), now - 50, now, now)
  contention.snapshot()
  assert.deepEqual(reported, [])
  contention.stop()
  assert.deepEqual(reported, [{ kind: 'mine', count: 1 }])
})

test('a snapshot is plain data, and survives JSON unchanged', () => {
  const contention = createContention()
  contention.turn(contention.kind('dispatch', { lane: 'registry' }), 0, 5, 6, 'task 7')
  contention.keys.granted({ namespace: 'n', operation: 'o', resource: 'r' }, 'a', '1')
  contention.keys.queued({ namespace: 'n', operation: 'o', resource: 'r' }, 'b', '1')
  const snapshot = contention.snapshot()

  assert.deepEqual(JSON.parse(JSON.stringify(snapshot)), snapshot)
  assert.equal(snapshot.keys[0]!.holder, 'a')
  const [slow] = contention.snapshot({ namespace: 'other' }).slowest
  assert.equal(slow!.what, null)
  assert.equal(contention.snapshot({ namespace: 'other' }).keys.length, 0)
})

test('a switched off recorder has all methods and records nothing', async () => {
  const kind = noContention.kind('dispatch', { lane: 'registry' })
  noContention.turn(kind, 0, 50, 60)
  const store = { find: async () => 1 }
  assert.equal(noContention.store(store, 'things'), store)
  assert.equal(await noContention.during(kind, async () => 5), 5)

  const { kinds, matrix, slowest, keys } = noContention.snapshot()
  assert.deepEqual([kinds, matrix, slowest, keys], [[], [], [], []])
})

test('invalid options are refused', () => {
  const invalid = { code: 'invalid_argument' }
  assert.throws(() => createContention({ warnMs: -1 }), invalid)
  assert.throws(() => createContention({ maxKinds: 1 }), invalid)
  assert.throws(() => createContention({ maxKey: 1 } as never), invalid)
})
