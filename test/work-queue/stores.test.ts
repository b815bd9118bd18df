/**
 * Contract, stores:
 *  O1  Entry: one object per pending add. (See also pending.test.ts.)
 *  O2  pop: only called while size > 0. (TapeStore asserts it in every test that uses one.)
 *  O3  FifoQueue: by priority, then first in first out.
 *  O4  FairQueue: by priority, then groups in turn.
 *  O5  touch(entry, previousPriority): added again while in the store.
 *  O6  `queue`: the store; default: new FifoQueue().
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { type Entry, FairQueue, FifoQueue, type Queue, WorkQueue } from 'signalbox/workqueue'
import { test } from 'vitest'
import { take, takeAll } from './probes.ts'

interface Loose {
  item: string
  priority: number
}
const entry = (item: string, priority = 0): Loose => ({ item, priority })
const initial = (item: string): string => item[0]!

function popAll(store: Queue<string>): string {
  const items: string[] = []
  while (store.size > 0) items.push(store.pop().item)
  return items.join(' ')
}

const stores: [string, () => Queue<string>][] = [
  ['FifoQueue', () => new FifoQueue<string>()],
  ['FairQueue', () => new FairQueue<string>(() => 'one group')],
]

for (const [name, create] of stores) {
  test(`O3: ${name}: items come by priority, then first in, first out (one group)`, () => {
    const store = create()
    assert.equal(store.size, 0)
    for (const [item, priority] of [
      ['a', 0],
      ['b', 5],
      ['c', -1],
      ['d', 0],
      ['e', 5],
      ['f', 0.5],
      ['g', Number.POSITIVE_INFINITY],
      ['h', Number.NEGATIVE_INFINITY],
    ] as const)
      store.push(entry(item, priority))
    assert.equal(store.size, 8)
    assert.equal(popAll(store), 'g b e f a d c h')
    assert.equal(store.size, 0)
  })

  test(`O1: ${name}: pop returns the very entry that was pushed`, () => {
    const store = create()
    const one = Object.freeze(entry('a'))
    store.push(one)
    assert.equal(store.pop(), one)
  })

  test(`O5: ${name}: a touched entry that was raised goes to the end of its new level`, () => {
    const store = create()
    const a = entry('a')
    const b = entry('b')
    for (const each of [a, b, entry('c'), entry('x', 2), entry('y', 2)]) store.push(each)
    b.priority = 2
    store.touch(b, 0)
    store.push(entry('z', 2))
    assert.equal(store.size, 6)
    a.priority = 1
    store.touch(a, 0)
    assert.equal(popAll(store), 'x y b z a c')
  })

  test(`O5: ${name}: a touched entry with an unchanged priority keeps its position`, () => {
    const store = create()
    const a = entry('a', 3)
    store.push(a)
    store.push(entry('b', 3))
    store.touch(a, 3)
    assert.equal(popAll(store), 'a b')
  })

  test(`O5: ${name}: an entry may be raised many times, from the front, the middle and the end`, () => {
    const store = create()
    const entries = ['a', 'b', 'c', 'd', 'e'].map((item) => entry(item))
    for (const each of entries) store.push(each)
    for (const index of [2, 0, 4, 2]) {
      const each = entries[index]!
      const before = each.priority++
      store.touch(each, before)
      assert.equal(store.size, 5)
    }
    assert.equal(popAll(store), 'c a e b d')
  })

  test(`${name}: zero and minus zero are one level`, () => {
    const store = create()
    for (const [item, priority] of [
      ['a', 0],
      ['b', -0],
      ['c', 0],
    ] as const)
      store.push(entry(item, priority))
    assert.equal(popAll(store), 'a b c')
  })

  test(`${name}: an emptied level can be used again, alternating`, () => {
    const store = create()
    for (let round = 0; round < 50; round++) {
      store.push(entry('low', round % 3))
      store.push(entry('high', 10 + (round % 3)))
      assert.equal(store.pop().item, 'high')
      assert.equal(store.pop().item, 'low')
      assert.equal(store.size, 0)
    }
  })

  test(`${name}: pushes and pops in waves keep the order`, () => {
    const store = create()
    let pushed = 0
    let popped = 0
    for (let wave = 1; wave <= 60; wave++) {
      for (let i = 0; i < wave; i++) store.push(entry(`n${pushed++}`))
      for (let i = 0; i < wave - (wave % 3); i++) assert.equal(store.pop().item, `n${popped++}`)
      assert.equal(store.size, pushed - popped)
    }
    while (store.size > 0) assert.equal(store.pop().item, `n${popped++}`)
    assert.equal(popped, pushed)
  })

  test(`${name}: a pop stays cheap with many levels`, () => {
    const store = create()
    const start = performance.now()
    for (let i = 0; i < 20_000; i++) store.push(entry(String(i), (i * 7_919) % 20_000))
    let last = Number.POSITIVE_INFINITY
    while (store.size > 0) {
      const { priority } = store.pop()
      assert.ok(priority <= last)
      last = priority
    }
    assert.ok(performance.now() - start < 5_000)
  })
}

test('O4: groups take turns, each first in, first out', () => {
  const store = new FairQueue<string>(initial)
  for (const item of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1']) store.push(entry(item))
  assert.equal(popAll(store), 'a1 b1 c1 a2 b2 a3 a4')
})

test('O4: a new group waits for its turn behind the others', () => {
  const store = new FairQueue<string>(initial)
  for (const item of ['a1', 'a2', 'b1', 'b2']) store.push(entry(item))
  assert.equal(store.pop().item, 'a1')
  store.push(entry('c1'))
  assert.equal(popAll(store), 'b1 a2 c1 b2')
})

test('O4: an emptied group returns behind the others, and cannot skip them', () => {
  const store = new FairQueue<string>(initial)
  for (const item of ['a1', 'b1', 'b2', 'c1']) store.push(entry(item))
  assert.equal(store.pop().item, 'a1')
  store.push(entry('a2'))
  assert.equal(popAll(store), 'b1 c1 a2 b2')
})

test('O4: a chatty group cannot starve a quiet one', () => {
  const store = new FairQueue<string>(initial)
  for (let i = 0; i < 1_000; i++) store.push(entry(`a${i}`))
  store.push(entry('b'))
  store.pop()
  assert.equal(store.pop().item, 'b')
})

test('O4: priority comes before the turns, and each level has its own turns', () => {
  const store = new FairQueue<string>(initial)
  for (const item of ['a1', 'a2', 'b1']) store.push(entry(item))
  for (const item of ['a8', 'a9', 'b9']) store.push(entry(item, 1))
  assert.equal(popAll(store), 'a8 b9 a9 a1 b1 a2')
})

test('O4, O5: a raised entry leaves its group in the old level and joins its group in the new', () => {
  const store = new FairQueue<string>(initial)
  const a1 = entry('a1')
  for (const each of [a1, entry('a2'), entry('b1'), entry('a7', 1), entry('a8', 1), entry('b8', 1)])
    store.push(each)
  a1.priority = 1
  store.touch(a1, 0)
  assert.equal(store.size, 6)
  assert.equal(popAll(store), 'a7 b8 a8 a1 a2 b1')
})

test('O4, O5: a group whose entries were all raised has no turn left in the old level', () => {
  const store = new FairQueue<string>(initial)
  const a1 = entry('a1')
  for (const each of [a1, entry('b1')]) store.push(each)
  a1.priority = 1
  store.touch(a1, 0)
  store.push(entry('a2'))
  assert.equal(popAll(store), 'a1 b1 a2', 'a comes anew, behind b')
})

test('O4, O5: a raised entry of a served group leaves no turn of that group behind', () => {
  const store = new FairQueue<string>(initial)
  const a2 = entry('a2')
  for (const each of [entry('a1'), a2, entry('b1'), entry('b2')]) store.push(each)
  assert.equal(store.pop().item, 'a1')
  assert.equal(store.pop().item, 'b1')
  a2.priority = 1
  store.touch(a2, 0)
  assert.equal(store.pop().item, 'a2')
  store.push(entry('c1'))
  store.push(entry('a3'))
  assert.equal(popAll(store), 'b2 c1 a3')
})

/** The order of a store in arrays and linear scans. */
class NaiveStore {
  readonly #fair: boolean
  #entries: Loose[] = []
  readonly #lines = new Map<number, string[]>()
  constructor(fair: boolean) {
    this.#fair = fair
  }
  get entries(): readonly Loose[] {
    return this.#entries
  }
  enter(each: Loose): void {
    this.#entries.push(each)
    const line = this.#lines.get(each.priority) ?? []
    if (!line.includes(initial(each.item))) line.push(initial(each.item))
    this.#lines.set(each.priority, line)
  }
  leave(each: Loose, served: boolean): void {
    this.#entries = this.#entries.filter((other) => other !== each)
    const group = initial(each.item)
    const left = this.#entries.some(
      (other) => other.priority === each.priority && initial(other.item) === group,
    )
    const line = this.#lines.get(each.priority)!
    if (served || !left) line.splice(line.indexOf(group), 1)
    if (served && left) line.push(group)
  }
  next(): Loose {
    const top = Math.max(...this.#entries.map(({ priority }) => priority))
    const level = this.#entries.filter(({ priority }) => priority === top)
    const group = this.#lines.get(top)![0]
    return this.#fair ? level.find(({ item }) => initial(item) === group)! : level[0]!
  }
}

for (const fair of [false, true]) {
  const name = fair ? 'FairQueue' : 'FifoQueue'
  test(`O3, O4, O5: ${name}: any pushes, raises and pops agree with a naive store`, () => {
    const aStep = fc.oneof(
      { weight: 5, arbitrary: fc.record({ group: fc.constantFrom('a', 'b', 'c'), priority: fc.nat(3) }) },
      { weight: 4, arbitrary: fc.record({ raise: fc.nat(1_000), by: fc.nat(2) }) },
      { weight: 4, arbitrary: fc.constant('pop' as const) },
    )
    const walk = fc.array(aStep, { maxLength: 400, size: 'max' })
    const property = fc.property(walk, (steps) => {
      const store: Queue<string> = fair ? new FairQueue<string>(initial) : new FifoQueue<string>()
      const naive = new NaiveStore(fair)
      let made = 0
      for (const step of steps) {
        if (step === 'pop') {
          if (naive.entries.length === 0) continue
          const expected = naive.next()
          naive.leave(expected, true)
          assert.equal(store.pop(), expected)
        } else if ('raise' in step) {
          const each = naive.entries[step.raise % naive.entries.length]
          if (!each) continue
          const before = each.priority
          if (step.by > 0) {
            naive.leave(each, false)
            each.priority += step.by
            naive.enter(each)
          }
          store.touch(each, before)
        } else {
          const each = entry(`${step.group}${++made}`, step.priority)
          naive.enter(each)
          store.push(each)
        }
        assert.equal(store.size, naive.entries.length)
      }
    })
    fc.assert(property, { numRuns: 200 })
  })
}

test('O4: group names are compared as a Map does', () => {
  const groups: unknown[] = [undefined, Number.NaN, Number.NaN, undefined, {}]
  const store = new FairQueue<string>((item) => groups[Number(item)])
  for (const item of ['0', '1', '2', '3', '4']) store.push(entry(item))
  assert.equal(popAll(store), '0 1 4 3 2')
})

test('O4: a fair queue keeps tenants apart, as in the contract’s example', () => {
  interface Pod {
    namespace: string
    name: string
  }
  const pod = (path: string): Pod => {
    const [namespace, name] = path.split('/') as [string, string]
    return { namespace, name }
  }
  const queue = new WorkQueue<Pod>({
    key: (p) => `${p.namespace}/${p.name}`,
    queue: new FairQueue((p: Pod) => p.namespace),
  })
  for (const path of ['a/1', 'a/2', 'a/3', 'b/1', 'a/1', 'b/1']) queue.add(pod(path))
  assert.deepEqual(
    takeAll(queue).map(({ namespace, name }) => `${namespace}/${name}`),
    ['a/1', 'b/1', 'a/2', 'a/3'],
  )
})

test('O4: a payload that changes its group neither loses nor doubles the item', () => {
  interface Task {
    id: number
    tenant: string
  }
  for (const priority of [0, 3]) {
    const queue = new WorkQueue<Task>({
      key: ({ id }) => id,
      queue: new FairQueue(({ tenant }: Task) => tenant),
    })
    queue.add({ id: 1, tenant: 'a' })
    queue.add({ id: 2, tenant: 'a' })
    queue.add({ id: 3, tenant: 'b' })
    assert.equal(queue.add({ id: 1, tenant: 'c' }, { priority }), false)
    assert.equal(queue.size, 3)
    const items = takeAll(queue)
    assert.deepEqual(items.map(({ id }) => id).sort(), [1, 2, 3])
    assert.equal(items.find(({ id }) => id === 1)?.tenant, 'c')
    assert.equal(queue.size, 0)
    assert.equal(queue.add({ id: 1, tenant: 'a' }), true)
  }
})

test('an error of groupOf reaches the caller of add and leaves the queue as it was', () => {
  const queue = new WorkQueue<string>({
    queue: new FairQueue((item: string) => {
      if (item === 'bad') throw new TypeError('no group')
      return item[0]
    }),
  })
  queue.add('a1')
  const before = queue.stats()
  assert.throws(() => queue.add('bad'), /no group/)
  assert.deepEqual(queue.stats(), before)
  assert.equal(queue.done('bad'), false)
  assert.throws(() => queue.add('bad'), /no group/, 'it is not taken for pending')
  queue.add('b1')
  assert.deepEqual(takeAll(queue), ['a1', 'b1'])
})

test('O6: a custom store decides the order', () => {
  class Stack implements Queue<string> {
    readonly #entries: Entry<string>[] = []
    push(each: Entry<string>): void {
      this.#entries.push(each)
    }
    touch(): void {}
    pop(): Entry<string> {
      return this.#entries.pop()!
    }
    get size(): number {
      return this.#entries.length
    }
  }
  const queue = new WorkQueue<string>({ queue: new Stack() })
  for (const item of ['a', 'b', 'c', 'a']) queue.add(item)
  assert.equal(queue.size, 3)
  assert.deepEqual(takeAll(queue), ['c', 'b', 'a'])
})

test('O6: a custom store may re-rank an item at touch', () => {
  class LastTouchedFirst implements Queue<string> {
    #entries: Entry<string>[] = []
    push(each: Entry<string>): void {
      this.#entries.push(each)
    }
    touch(each: Entry<string>): void {
      this.#entries = [each, ...this.#entries.filter((other) => other !== each)]
    }
    pop(): Entry<string> {
      return this.#entries.shift()!
    }
    get size(): number {
      return this.#entries.length
    }
  }
  const queue = new WorkQueue<string>({ queue: new LastTouchedFirst() })
  for (const item of ['a', 'b', 'c', 'b']) queue.add(item)
  assert.equal(take(queue).item, 'b')
  assert.deepEqual(takeAll(queue), ['a', 'c'])
})

test('two queues have separate stores', () => {
  const one = new WorkQueue<string>()
  const two = new WorkQueue<string>()
  one.add('a')
  assert.equal(two.size, 0)
  assert.equal(two.tryGet(), undefined)
})
