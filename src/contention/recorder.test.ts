import assert from 'node:assert/strict'
import { test } from 'vitest'
import { Kinds } from './kinds.ts'
import { Recorder, Slowest } from './recorder.ts'
import { Matrix } from './wait-matrix.ts'

function stage({ capacity = 100, maxKinds = 64 } = {}) {
  const clock = { now: 1_000 }
  const kinds = new Kinds(maxKinds)
  const holder = (name: string) => kinds.get(kinds.of(name))
  const named = { gc: holder('gc'), eventLoop: holder('event-loop'), host: holder('host') }
  const matrix = new Matrix({ kinds, named })
  const slowest = new Slowest(10, 0)
  const meter = new Recorder({ kinds, matrix, slowest, now: () => clock.now, maxOpen: capacity })
  /** Milliseconds by 'waiter <- holder'. */
  const cells = () => {
    matrix.settle(Number.POSITIVE_INFINITY)
    const name = (id: number) => kinds.get(id).name
    return Object.fromEntries(
      matrix
        .cells()
        .map(({ waiter, holder, ms }) => [
          `${name(waiter)} <- ${name(holder)}`,
          Math.round(ms * 1_000) / 1_000,
        ]),
    )
  }
  return { clock, kinds, matrix, meter, slowest, cells }
}

test('a wait is charged to the users of the lane, each for its share of the time', () => {
  const { clock, meter, cells } = stage()
  const [dispatch, rebuild] = [
    meter.kind('dispatch', { lane: 'registry' }),
    meter.kind('rebuild', { lane: 'registry' }),
  ]
  const slow = meter.begin(rebuild)
  meter.enter(slow)
  clock.now += 10
  const late = meter.begin(dispatch)
  clock.now += 40
  meter.leave(slow)
  meter.enter(late)
  clock.now += 1
  meter.leave(late)

  assert.deepEqual(cells(), { 'dispatch <- rebuild': 40 })
})

test('a turn that blocks the thread is charged in every lane, other turns only in their own lane', () => {
  const { meter, cells } = stage()
  const waiter = meter.kind('waiter', { lane: 'one' })
  const sync = meter.kind('sync', { lane: 'two', sync: true })
  const async = meter.kind('async', { lane: 'two' })
  meter.turn(sync, 0, 0, 20)
  meter.turn(async, 0, 0, 20)
  meter.turn(waiter, 0, 20, 21)

  assert.deepEqual(cells(), { 'waiter <- sync': 20 })
})

test('time without a known user of the lane goes to other, and the charges never exceed the wait', () => {
  const { meter, cells } = stage()
  const kind = meter.kind('query', { lane: 'pool', size: 4 })
  const report = meter.kind('report', { lane: 'pool', size: 4 })
  // Three connections in a report and one in a query, side by side, for half of the wait.
  for (let count = 0; count < 3; count++) meter.turn(report, 0, 0, 10)
  meter.turn(kind, 0, 0, 10)
  meter.turn(kind, 0, 10, 10)
  assert.deepEqual(cells(), { 'query <- report': 7.5, 'query <- query': 2.5 })

  const alone = meter.kind('alone')
  meter.turn(alone, 100, 130, 131)
  assert.equal(cells()['alone <- other'], 30)
})

test('turns that are not over are charged, too', () => {
  const { clock, meter, cells } = stage()
  const kind = meter.kind('query', { lane: 'pool', size: 2 })
  const report = meter.kind('report', { lane: 'pool', size: 2 })
  for (let count = 0; count < 2; count++) meter.enter(meter.begin(report))
  const waiter = meter.begin(kind)
  clock.now += 100
  meter.leave(waiter)

  assert.deepEqual(cells(), { 'query <- report': 100 })
})

test('a wait of up to a millisecond is counted, but not charged', () => {
  const { kinds, meter, cells } = stage()
  const kind = meter.kind('quick', { lane: 'lane' })
  meter.turn(kind, 0, 1, 5)

  assert.deepEqual(cells(), {})
  assert.equal(kinds.get(kind).wait!.count, 1)
})

test('a lane knows its waiters, their greatest number, and its active turns', () => {
  const { kinds, meter } = stage()
  const kind = meter.kind('command', { lane: 'lane' })
  const tickets = [1, 2, 3].map(() => meter.begin(kind))
  meter.enter(tickets[0]!)
  meter.leave(tickets[1]!)

  const [lane] = kinds.lanes
  assert.deepEqual([lane!.waiting, lane!.peakWaiting, lane!.open.size], [1, 3, 1])
  meter.depth('told', 7)
  meter.depth('told', 2)
  const told = [...kinds.lanes].find(({ name }) => name === 'told')!
  assert.deepEqual([told.waiting, told.peakWaiting], [2, 7])
})

test('invalid tickets change nothing', () => {
  const { kinds, clock, meter } = stage()
  const kind = meter.kind('command', { lane: 'lane' })
  const ticket = meter.begin(kind)
  meter.enter(ticket)
  meter.enter(ticket)
  clock.now += 5
  meter.leave(ticket)
  meter.leave(ticket)
  const other = meter.begin(kind)
  meter.enter(ticket)
  for (const odd of [0, -1, 1.5, Number.NaN, 2 ** 40, undefined as unknown as number]) {
    meter.enter(odd)
    meter.leave(odd)
    meter.begin(odd)
  }
  meter.turn(kind, 10, 5, 7)
  meter.turn(kind, Number.NaN, 5, 7)

  assert.equal(kinds.get(kind).hold!.count, 1)
  const [lane] = kinds.lanes
  assert.deepEqual([lane!.waiting, lane!.open.size], [1, 0])
  meter.leave(other)
  assert.equal(lane!.waiting, 0)
})

test('beyond the capacity, tickets are counted and do nothing', () => {
  const { kinds, meter } = stage({ capacity: 4 })
  const kind = meter.kind('command', { lane: 'lane' })
  const all = Array.from({ length: 10 }, () => meter.begin(kind))
  assert.equal(meter.overflow, 6)
  for (const ticket of all) meter.enter(ticket)
  for (const ticket of all) meter.leave(ticket)

  assert.equal(kinds.get(kind).hold!.count, 4)
  const again = Array.from({ length: 4 }, () => meter.begin(kind))
  assert.ok(again.every((ticket) => ticket !== 0))
})

test('kinds beyond the capacity are counted as other', () => {
  const { kinds, meter } = stage({ maxKinds: 16 })
  const numbers = Array.from({ length: 100 }, (_, number) => meter.kind(`kind ${number}`))

  assert.equal([...kinds].length, 16)
  assert.equal(numbers.at(-1), 0)
  meter.turn(numbers.at(-1)!, 0, 0, 1)
  assert.equal(kinds.get(0).hold!.count, 1)
})
