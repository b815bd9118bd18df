/**
 * Contract, "Delays":
 *  L1  `ms <= 0` is `add`. NaN is a RangeError. Infinity waits for ever.
 *  L2  Of several delayed adds of one item the earliest due time stands, with the highest priority and the
 *      newest payload;
 *  L3  `replace: true` sets the due time whatever it was.
 *  L4  Due items enter in due order, equal times in the order of the calls that set them.
 *  L5  By default `add` leaves a waiting add of the same item in force;
 *  L6  with `coalesce` it uses it up,
 *  L7  and `addAfter` of an already pending item changes nothing but priority and payload.
 *  L8  An item falling due while in flight becomes pending like any `add`.
 *  L9  addAfter: true: newly pending. cancelAfter takes a waiting add back. readyAt: due time on the clock.
 */
import assert from 'node:assert/strict'
import { createFakeClock, type FakeClock } from 'signalbox/testing'
import { DelayingQueue, type DelayingQueueOptions } from 'signalbox/workqueue'
import { test } from 'vitest'
import { TapeStore, take, takeAll, workOf } from './probes.ts'

interface Pod {
  readonly name: string
  readonly version: number
}

function delaying<T = string>(
  options: DelayingQueueOptions<T> = {},
  startMs = 0,
): { queue: DelayingQueue<T>; clock: FakeClock } {
  const clock = createFakeClock(startMs)
  return { queue: new DelayingQueue<T>({ clock, ...options }), clock }
}

test('a delayed item is handed out at its due time and not before', () => {
  const { queue, clock } = delaying({}, 5_000)
  assert.equal(queue.addAfter('a', 100), true)
  assert.deepEqual([queue.waiting, queue.size, queue.readyAt('a')], [1, 0, 5_100])
  clock.advance(99.5)
  assert.equal(queue.tryGet(), undefined)
  clock.advance(0.5)
  assert.deepEqual([queue.waiting, queue.size, queue.readyAt('a')], [0, 1, undefined])
  assert.deepEqual(takeAll(queue), ['a'])
  clock.advance(100_000)
  assert.equal(queue.size, 0, 'once')
})

test('a blocked getter gets an item that becomes due', async () => {
  const { queue, clock } = delaying()
  const got = queue.get()
  queue.addAfter('a', 10, { priority: 3 })
  clock.advance(10)
  assert.deepEqual([queue.processing, queue.size], [1, 0])
  const work = await workOf(got)
  assert.deepEqual([work.item, work.priority], ['a', 3])
})

test('L1: a delay of zero or less is an add at once', () => {
  const { queue, clock } = delaying()
  assert.equal(queue.addAfter('zero', 0), true)
  assert.equal(queue.addAfter('minus zero', -0), true)
  assert.equal(queue.addAfter('negative', -5), true)
  assert.equal(queue.addAfter('never was', Number.NEGATIVE_INFINITY), true)
  assert.equal(queue.addAfter('zero', 0), false, 'already pending')
  assert.deepEqual([queue.size, queue.waiting, clock.timerCount], [4, 0, 0])
  queue.addAfter('negative', -1, { priority: 2 })
  assert.deepEqual(takeAll(queue), ['negative', 'zero', 'minus zero', 'never was'])
})

test('L1: NaN is a RangeError and changes nothing', () => {
  const { queue, clock } = delaying()
  queue.addAfter('a', 10)
  const before = queue.stats()
  assert.throws(() => queue.addAfter('a', Number.NaN), RangeError)
  assert.throws(() => queue.addAfter('b', Number.NaN, { replace: true }), RangeError)
  assert.deepEqual(queue.stats(), before)
  assert.equal(queue.readyAt('a'), 10)
  assert.equal(clock.timerCount, 1)
})

test('L1: Infinity waits for ever, and the item can be read, moved and cancelled', () => {
  const { queue, clock } = delaying()
  assert.equal(queue.addAfter('a', Number.POSITIVE_INFINITY), true)
  assert.deepEqual([queue.waiting, queue.readyAt('a')], [1, Number.POSITIVE_INFINITY])
  clock.advance(1e6)
  assert.deepEqual([queue.waiting, queue.size], [1, 0])
  assert.ok(clock.timerCount <= 1)
  queue.addAfter('a', 10)
  clock.advance(10)
  assert.deepEqual(takeAll(queue), ['a'])
  queue.addAfter('b', Number.POSITIVE_INFINITY)
  assert.equal(queue.cancelAfter('b'), true)
  assert.deepEqual([queue.waiting, clock.timerCount], [0, 0])
})

test('L1: items that wait for ever do not delay the others', () => {
  const { queue, clock } = delaying()
  queue.addAfter('never', Number.POSITIVE_INFINITY)
  queue.addAfter('soon', 5)
  queue.addAfter('never too', Number.POSITIVE_INFINITY)
  clock.advance(5)
  assert.deepEqual(takeAll(queue), ['soon'])
  assert.equal(queue.waiting, 2)
})

test('fractions of a millisecond count', () => {
  const { queue, clock } = delaying()
  queue.addAfter('later', 1.75)
  queue.addAfter('sooner', 1.25)
  clock.advance(1.25)
  assert.deepEqual(takeAll(queue), ['sooner'])
  clock.advance(0.25)
  assert.equal(queue.size, 0)
  clock.advance(0.25)
  assert.deepEqual(takeAll(queue), ['later'])
})

test('L2: the earliest due time applies, whichever call came first', () => {
  const { queue, clock } = delaying()
  assert.equal(queue.addAfter('a', 50), true)
  assert.equal(queue.addAfter('a', 20), false)
  assert.equal(queue.addAfter('a', 90), false)
  assert.deepEqual([queue.waiting, queue.readyAt('a')], [1, 20])
  clock.advance(20)
  assert.deepEqual(takeAll(queue), ['a'])
  clock.advance(100)
  assert.equal(queue.size, 0, 'one run for the three')
})

test('L2: the highest priority and the newest payload apply, also when the call did not move the time', () => {
  const { queue, clock } = delaying<Pod>({ key: ({ name }) => name })
  queue.addAfter({ name: 'web', version: 1 }, 20, { priority: 1 })
  queue.addAfter({ name: 'web', version: 2 }, 90, { priority: 6 })
  queue.addAfter({ name: 'web', version: 3 }, 80, { priority: 2 })
  queue.add({ name: 'db', version: 1 }, { priority: 5 })
  clock.advance(20)
  const work = take(queue)
  assert.deepEqual([work.item, work.priority], [{ name: 'web', version: 3 }, 6])
})

test('L2: a negative priority of a delayed add is kept', () => {
  const { queue, clock } = delaying()
  queue.addAfter('a', 5, { priority: -2 })
  queue.addAfter('a', 5, { priority: -7 })
  clock.advance(5)
  assert.equal(take(queue).priority, -2)
})

test('L3: replace moves the due time later', () => {
  const { queue, clock } = delaying()
  queue.addAfter('a', 10)
  assert.equal(queue.addAfter('a', 100, { replace: true }), false)
  assert.deepEqual([queue.waiting, queue.readyAt('a')], [1, 100])
  clock.advance(99)
  assert.equal(queue.size, 0)
  clock.advance(1)
  assert.deepEqual(takeAll(queue), ['a'])
})

test('L3: replace moves the due time earlier, to Infinity and back', () => {
  const { queue, clock } = delaying()
  queue.addAfter('a', 100)
  queue.addAfter('a', Number.POSITIVE_INFINITY, { replace: true })
  assert.equal(queue.readyAt('a'), Number.POSITIVE_INFINITY)
  clock.advance(200)
  assert.equal(queue.size, 0)
  queue.addAfter('a', 30, { replace: true })
  assert.equal(queue.readyAt('a'), 230)
  queue.addAfter('a', 10, { replace: true })
  clock.advance(10)
  assert.deepEqual(takeAll(queue), ['a'])
  assert.equal(queue.waiting, 0)
})

test('L2, L3: replace changes the time; the highest priority and the newest payload apply', () => {
  const { queue, clock } = delaying<Pod>({ key: ({ name }) => name })
  queue.addAfter({ name: 'web', version: 1 }, 10, { priority: 4 })
  queue.addAfter({ name: 'web', version: 2 }, 20, { priority: 1, replace: true })
  clock.advance(20)
  const work = take(queue)
  assert.deepEqual([work.item.version, work.priority], [2, 4])
})

test('L3: replace of an item that does not wait is a plain addAfter', () => {
  const { queue } = delaying()
  assert.equal(queue.addAfter('a', 10, { replace: true }), true)
  assert.equal(queue.readyAt('a'), 10)
})

test('L4: items enter in due order, whatever the order of the calls', () => {
  const { queue, clock } = delaying()
  for (const ms of [7, 3, 9, 1, 8, 2, 6, 5, 4]) queue.addAfter(String(ms), ms)
  clock.jump(1_000)
  clock.advance(1)
  assert.deepEqual(takeAll(queue), ['1', '2', '3', '4', '5', '6', '7', '8', '9'])
})

test('L4: equal times enter in the order of the calls', () => {
  const { queue, clock } = delaying()
  const names = Array.from({ length: 100 }, (_, i) => `n${(i * 37) % 100}`)
  for (const name of names) queue.addAfter(name, 10)
  clock.advance(10)
  assert.deepEqual(takeAll(queue), names)
})

test('L4: a later call for the same instant is later in the order', () => {
  const { queue, clock } = delaying()
  queue.addAfter('b', 10)
  clock.advance(4)
  queue.addAfter('a', 6)
  clock.advance(6)
  assert.deepEqual(takeAll(queue), ['b', 'a'])
})

test('L4: a repeated addAfter that does not move the time keeps the position among equals', () => {
  const { queue, clock } = delaying()
  queue.addAfter('a', 10)
  queue.addAfter('b', 10)
  queue.addAfter('a', 10)
  queue.addAfter('a', 20)
  clock.advance(10)
  assert.deepEqual(takeAll(queue), ['a', 'b'])
})

test('L4: the call that sets the earlier time sets the position among equals', () => {
  const { queue, clock } = delaying()
  queue.addAfter('a', 20)
  queue.addAfter('b', 10)
  queue.addAfter('a', 10)
  queue.addAfter('c', 10)
  clock.advance(10)
  assert.deepEqual(takeAll(queue), ['b', 'a', 'c'])
})

test('L4: replace counts as newly set, also for the same instant', () => {
  const { queue, clock } = delaying()
  queue.addAfter('a', 10)
  queue.addAfter('b', 10)
  queue.addAfter('c', 10)
  queue.addAfter('a', 10, { replace: true })
  queue.addAfter('b', 40, { replace: true })
  queue.addAfter('b', 10, { replace: true })
  clock.advance(10)
  assert.deepEqual(takeAll(queue), ['c', 'a', 'b'])
})

test('L4: due items enter in due order, then the store orders by priority', () => {
  const tape = new TapeStore<string>()
  const { queue, clock } = delaying({ queue: tape })
  queue.addAfter('late', 20, { priority: 9 })
  queue.addAfter('early', 10)
  queue.addAfter('middle', 15, { priority: 5 })
  clock.jump(100)
  clock.advance(10)
  assert.deepEqual(
    tape.calls.map(({ item, priority }) => [item, priority]),
    [
      ['early', 0],
      ['middle', 5],
      ['late', 9],
    ],
  )
  const usual = delaying()
  usual.queue.addAfter('late', 20, { priority: 9 })
  usual.queue.addAfter('early', 10)
  usual.clock.jump(100)
  usual.clock.advance(10)
  assert.deepEqual(takeAll(usual.queue), ['late', 'early'])
})

test('L4: blocked getters get due items in due order', async () => {
  const { queue, clock } = delaying()
  const gets = [queue.get(), queue.get()]
  queue.addAfter('second', 10, { priority: 9 })
  queue.addAfter('first', 5)
  clock.advance(10)
  const works = await Promise.all(gets)
  assert.deepEqual(
    works.map(({ item }) => item),
    ['first', 'second'],
  )
})

test('L4: a thousand random delays, half of them replaced, come out in order', () => {
  const { queue, clock } = delaying<number>()
  const dueAt = new Map<number, { at: number; call: number }>()
  let state = 12_345
  const random = (below: number): number => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state % below
  }
  for (let call = 0; call < 1_500; call++) {
    const item = random(1_000)
    const at = 1 + random(300)
    queue.addAfter(item, at, { replace: true })
    dueAt.set(item, { at, call })
    if (call % 7 === 0) {
      const gone = random(1_000)
      assert.equal(queue.cancelAfter(gone), dueAt.delete(gone))
    }
  }
  assert.equal(queue.waiting, dueAt.size)
  const expected = [...dueAt].sort(([, a], [, b]) => a.at - b.at || a.call - b.call).map(([item]) => item)
  clock.advance(300)
  assert.deepEqual(takeAll(queue), expected)
})

test('L4: repeated bursts keep order, payload, priority and the rest of the queue intact', () => {
  const { queue, clock } = delaying<Pod>({ key: ({ name }) => name })
  const due: { name: string; version: number; priority: number; at: number; call: number }[] = []
  let state = 7
  const random = (below: number): number => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor(state / 65_536) % below
  }
  let call = 0
  const drop = (name: string): boolean => {
    const index = due.findIndex((each) => each.name === name)
    if (index >= 0) due.splice(index, 1)
    return index >= 0
  }
  for (const burst of [300, 5, 700, 0, 40, 1_000, 3]) {
    for (let i = 0; i < burst; i++) {
      const name = `n${random(1_200)}`
      const before = due.find((each) => each.name === name)
      const priority = Math.max(random(4) - 1, before?.priority ?? -1)
      const at = clock.now() + 1 + random(60)
      drop(name)
      due.push({ name, version: ++call, priority, at, call })
      queue.addAfter({ name, version: call }, at - clock.now(), { priority, replace: true })
    }
    for (let i = 0; i < burst; i++) {
      const name = `n${random(1_200)}`
      assert.equal(queue.cancelAfter({ name, version: 0 }), drop(name))
    }
    for (let step = 0; step < 50; step++) {
      clock.advance(1)
      const ready = due.filter(({ at }) => at <= clock.now())
      for (const each of ready) drop(each.name)
      ready.sort((a, b) => b.priority - a.priority || a.at - b.at || a.call - b.call)
      assert.deepEqual(
        takeAll(queue).map(({ name, version }) => [name, version]),
        ready.map(({ name, version }) => [name, version]),
      )
      assert.equal(queue.waiting, due.length)
    }
    for (const { name, at } of due) assert.equal(queue.readyAt({ name, version: 0 }), at)
  }
})

test('L5: by default an add leaves a waiting add in force', () => {
  const { queue, clock } = delaying()
  queue.addAfter('a', 80)
  assert.equal(queue.add('a'), true)
  assert.deepEqual([queue.size, queue.waiting, queue.readyAt('a')], [1, 1, 80])
  assert.deepEqual(takeAll(queue), ['a'])
  clock.advance(80)
  assert.deepEqual(takeAll(queue), ['a'])
})

test('L5: by default addAfter of a queued item also waits, and joins it when due', () => {
  const tape = new TapeStore<Pod>()
  const { queue, clock } = delaying<Pod>({ key: ({ name }) => name, queue: tape })
  queue.add({ name: 'web', version: 1 })
  assert.equal(queue.addAfter({ name: 'web', version: 2 }, 10, { priority: 3 }), true)
  assert.deepEqual([queue.size, queue.waiting], [1, 1])
  assert.deepEqual(tape.names, ['push'])
  clock.advance(10)
  assert.deepEqual([queue.size, queue.waiting], [1, 0])
  assert.deepEqual(tape.names, ['push', 'touch'])
  const work = take(queue)
  assert.deepEqual([work.item.version, work.priority], [2, 3])
})

test('L5: a waiting add that stays in force never brings back an older payload', () => {
  const { queue, clock } = delaying<Pod>({ key: ({ name }) => name })
  queue.addAfter({ name: 'web', version: 1 }, 10)
  queue.add({ name: 'web', version: 2 })
  clock.advance(10)
  assert.equal(take(queue).item.version, 2, 'it fell due while the newer was queued')
  queue.done({ name: 'web', version: 0 })
  queue.addAfter({ name: 'web', version: 3 }, 10)
  queue.add({ name: 'web', version: 4 })
  takeAll(queue)
  clock.advance(10)
  assert.equal(take(queue).item.version, 4, 'it fell due after the newer was done')
})

test('L3: replace with a delay of zero is an add that replaces the waiting one', () => {
  for (const coalesce of [false, true]) {
    const { queue, clock } = delaying({ coalesce })
    queue.addAfter('a', 80, { priority: 2 })
    assert.equal(queue.addAfter('a', 0, { replace: true }), true)
    assert.deepEqual([queue.size, queue.waiting, clock.timerCount], [1, 0, 0])
    assert.equal(take(queue).priority, 2)
  }
})

test('L6: with coalesce an add uses the waiting add up', () => {
  const { queue, clock } = delaying({ coalesce: true })
  queue.addAfter('a', 80)
  assert.equal(queue.add('a'), true)
  assert.deepEqual([queue.size, queue.waiting, queue.readyAt('a'), clock.timerCount], [1, 0, undefined, 0])
  assert.deepEqual(takeAll(queue), ['a'])
  clock.advance(200)
  assert.equal(queue.size, 0)
})

test('L6: with coalesce addAfter of zero is an add and uses the waiting add up', () => {
  const { queue, clock } = delaying({ coalesce: true })
  queue.addAfter('a', 80)
  assert.equal(queue.addAfter('a', 0), true)
  assert.deepEqual([queue.size, queue.waiting, clock.timerCount], [1, 0, 0])
})

test('L6: with coalesce an add of an item in flight uses the waiting add up', () => {
  const { queue, clock } = delaying({ coalesce: true })
  queue.add('a')
  take(queue)
  assert.equal(queue.addAfter('a', 80), true)
  assert.equal(queue.add('a'), true)
  assert.deepEqual([queue.waiting, queue.stats().depth, clock.timerCount], [0, 1, 0])
  queue.done('a')
  assert.deepEqual(takeAll(queue), ['a'])
})

test('L6: with coalesce the used up add passes on its priority, and the newest payload applies', () => {
  const { queue } = delaying<Pod>({ key: ({ name }) => name, coalesce: true })
  queue.addAfter({ name: 'web', version: 1 }, 80, { priority: 6 })
  queue.add({ name: 'web', version: 2 }, { priority: 1 })
  const work = take(queue)
  assert.deepEqual([work.item.version, work.priority], [2, 6])
})

test('L6: with coalesce an add of one item leaves the others waiting', () => {
  const { queue, clock } = delaying({ coalesce: true })
  queue.addAfter('a', 10)
  queue.addAfter('b', 20)
  queue.add('a')
  assert.equal(queue.waiting, 1)
  takeAll(queue)
  clock.advance(20)
  assert.deepEqual(takeAll(queue), ['b'])
})

test('L7: with coalesce addAfter of a queued item changes nothing but priority and payload', () => {
  const tape = new TapeStore<Pod>()
  const { queue, clock } = delaying<Pod>({ key: ({ name }) => name, coalesce: true, queue: tape })
  queue.add({ name: 'web', version: 1 }, { priority: 1 })
  assert.equal(queue.addAfter({ name: 'web', version: 2 }, 10, { priority: 4 }), false)
  assert.deepEqual([queue.size, queue.waiting, clock.timerCount], [1, 0, 0])
  assert.equal(queue.readyAt({ name: 'web', version: 0 }), undefined)
  assert.deepEqual(tape.names, ['push', 'touch'], 'the store hears of it')
  assert.equal(tape.calls[1]!.previousPriority, 1)
  const work = take(queue)
  assert.deepEqual([work.item.version, work.priority], [2, 4])
  clock.advance(100)
  assert.equal(queue.size, 0)
})

test('L7: with coalesce addAfter of an item re-added in flight changes nothing but priority and payload', () => {
  const tape = new TapeStore<Pod>()
  const { queue, clock } = delaying<Pod>({ key: ({ name }) => name, coalesce: true, queue: tape })
  queue.add({ name: 'web', version: 1 })
  take(queue)
  queue.add({ name: 'web', version: 2 })
  assert.equal(queue.addAfter({ name: 'web', version: 3 }, 10, { priority: 4, replace: true }), false)
  assert.deepEqual([queue.waiting, clock.timerCount], [0, 0])
  assert.ok(!tape.names.includes('touch'))
  queue.done({ name: 'web', version: 0 })
  const work = take(queue)
  assert.deepEqual([work.item.version, work.priority], [3, 4])
})

test('L7: with coalesce addAfter of an item in flight that is not pending waits', () => {
  const { queue, clock } = delaying({ coalesce: true })
  queue.add('a')
  take(queue)
  assert.equal(queue.addAfter('a', 10), true)
  assert.equal(queue.waiting, 1)
  queue.done('a')
  clock.advance(10)
  assert.deepEqual(takeAll(queue), ['a'])
})

test('coalesce: an item is pending once, the earliest wins', () => {
  const { queue, clock } = delaying({ coalesce: true })
  assert.equal(queue.addAfter('a', 50), true)
  assert.equal(queue.addAfter('a', 20), false)
  assert.equal(queue.addAfter('a', 70), false)
  assert.equal(queue.readyAt('a'), 20)
  clock.advance(100)
  assert.deepEqual(takeAll(queue), ['a'])
})

test('L8: an item that becomes due while in flight becomes pending like any add', () => {
  for (const coalesce of [false, true]) {
    const tape = new TapeStore<string>()
    const { queue, clock } = delaying({ coalesce, queue: tape })
    queue.add('a')
    take(queue)
    queue.addAfter('a', 10, { priority: 2 })
    clock.advance(10)
    assert.deepEqual([queue.waiting, queue.size, queue.processing, queue.stats().depth], [0, 0, 1, 1])
    assert.equal(queue.add('a', { priority: 1 }), false, 'already pending')
    assert.deepEqual(tape.names, ['push', 'pop'])
    queue.done('a')
    assert.equal(take(queue).priority, 2)
  }
})

test('L9: cancelAfter cancels a waiting add, once', () => {
  const { queue, clock } = delaying()
  queue.addAfter('a', 10)
  queue.addAfter('b', 20)
  assert.equal(queue.cancelAfter('a'), true)
  assert.equal(queue.cancelAfter('a'), false)
  assert.equal(queue.cancelAfter('unknown'), false)
  assert.deepEqual([queue.waiting, queue.readyAt('a'), queue.readyAt('b')], [1, undefined, 20])
  clock.advance(100)
  assert.deepEqual(takeAll(queue), ['b'])
})

test('L9: cancelAfter cancels nothing that is queued or in flight', () => {
  const { queue, clock } = delaying()
  queue.addAfter('a', 10)
  queue.add('a')
  assert.equal(queue.cancelAfter('a'), true)
  assert.deepEqual([queue.size, queue.waiting], [1, 0])
  assert.equal(queue.cancelAfter('a'), false)
  take(queue)
  assert.equal(queue.cancelAfter('a'), false)
  assert.equal(queue.processing, 1)
  queue.done('a')
  clock.advance(100)
  assert.equal(queue.size, 0)
})

test('L9: after cancelAfter the item may be delayed again', () => {
  const { queue, clock } = delaying()
  queue.addAfter('a', 10, { priority: 8 })
  queue.cancelAfter('a')
  assert.equal(queue.addAfter('a', 30), true)
  clock.advance(10)
  assert.equal(queue.size, 0)
  clock.advance(20)
  assert.equal(take(queue).priority, 0, 'nothing of the cancelled add is left')
})

test('L9: readyAt and cancelAfter use the key', () => {
  const { queue } = delaying<Pod>({ key: ({ name }) => name })
  queue.addAfter({ name: 'web', version: 1 }, 10)
  assert.equal(queue.readyAt({ name: 'web', version: 9 }), 10)
  assert.equal(queue.readyAt({ name: 'db', version: 1 }), undefined)
  assert.equal(queue.cancelAfter({ name: 'web', version: 9 }), true)
  assert.equal(queue.waiting, 0)
})

test('an item may be delayed again once it is due', () => {
  const { queue, clock } = delaying()
  queue.addAfter('a', 10)
  clock.advance(10)
  assert.equal(queue.addAfter('a', 10), true)
  assert.equal(queue.readyAt('a'), 20)
  clock.advance(10)
  assert.deepEqual(takeAll(queue), ['a'], 'it had not been taken in between')
})

test('a key function that throws in addAfter, cancelAfter or readyAt leaves the queue as it was', () => {
  let broken = false
  const { queue, clock } = delaying({
    key: (item) => {
      if (broken) throw new TypeError('no key')
      return item
    },
  })
  queue.addAfter('a', 10)
  const before = queue.stats()
  broken = true
  assert.throws(() => queue.addAfter('b', 5), /no key/)
  assert.throws(() => queue.addAfter('b', 0), /no key/)
  assert.throws(() => queue.cancelAfter('a'), /no key/)
  assert.throws(() => queue.readyAt('a'), /no key/)
  broken = false
  assert.deepEqual({ ...queue.stats(), retries: 0 }, { ...before, retries: 0 })
  clock.advance(10)
  assert.deepEqual(takeAll(queue), ['a'])
})
