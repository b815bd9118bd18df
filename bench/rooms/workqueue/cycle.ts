/**
 * add, get, done over 100 names in a steady state: the producer queues all of them, the consumer takes and ends them
 * one by one. Once with `await get()`, client-go's loop, and once with `tryGet()`.
 *
 * fastq's stream is the same load: 100 pushes, one worker. Its worker must answer later than it is called, or fastq
 * calls it straight from `push` and queues nothing; a microtask is the cheapest "later" and also what `await get()`
 * pays for each item. `fastq held` has no "later" at all: the worker puts the callback aside and the consumer's loop
 * calls it, which is the nearest to `tryGet()`. It is printed beside it; the goal is the stream rate.
 */
import { WorkQueue } from 'signalbox/workqueue'
import type { Contestant, Figures, Trial } from '../../case.ts'
import { atLeast, atLeastTimes } from '../../goal.ts'
import { paceOf, rateOf } from '../../stopwatch.ts'
import { burst, freshNames } from './items.ts'
import { PlainQueue } from './plain.ts'

const burstsPerBatch = 100
const perBatch = burst * burstsPerBatch
let handled = 0

/** The rate of a batch that handles every name of each burst. */
async function cycled(quick: boolean, batch: () => void | Promise<void>): Promise<Figures> {
  const rate = await rateOf(paceOf(quick), perBatch, batch)
  if (handled === 0) throw new Error('Nothing was handled.')
  return { rate }
}

const awaited: Contestant = async ({ quick }) => {
  const names = freshNames(burst)
  const queue = new WorkQueue<string>()
  return cycled(quick, async () => {
    for (let turn = 0; turn < burstsPerBatch; turn++) {
      for (const name of names) queue.add(name)
      for (let left = burst; left > 0; left--) {
        const { item, shutdown } = await queue.get()
        if (shutdown) throw new Error('The queue shut down by itself.')
        handled += item.length
        queue.done(item)
      }
    }
  })
}

const tried: Contestant = async ({ quick }) => {
  const names = freshNames(burst)
  const queue = new WorkQueue<string>()
  return cycled(quick, () => {
    for (let turn = 0; turn < burstsPerBatch; turn++) {
      for (const name of names) queue.add(name)
      for (let work = queue.tryGet(); work && !work.shutdown; work = queue.tryGet()) {
        handled += work.item.length
        queue.done(work.item)
      }
    }
  })
}

const fastqStream: Contestant = async ({ quick }) => {
  const { default: fastq } = await import('fastq')
  const names = freshNames(burst)
  const queue = fastq<unknown, string>((name, callback) => {
    handled += name.length
    queueMicrotask(callback as () => void)
  }, 1)
  return cycled(quick, () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    let left = burstsPerBatch
    queue.drain = () => {
      if (left-- === 0) resolve()
      else for (const name of names) queue.push(name)
    }
    queue.drain()
    return promise
  })
}

const fastqHeld: Contestant = async ({ quick }) => {
  const { default: fastq } = await import('fastq')
  const names = freshNames(burst)
  let answer: (error: null) => void = () => {}
  const queue = fastq<unknown, string>((name, callback) => {
    handled += name.length
    answer = callback
  }, 1)
  return cycled(quick, () => {
    for (let turn = 0; turn < burstsPerBatch; turn++) {
      for (const name of names) queue.push(name)
      for (let left = burst; left > 0; left--) answer(null)
    }
  })
}

const plainAwaited: Contestant = async ({ quick }) => {
  const names = freshNames(burst)
  const queue = new PlainQueue()
  return cycled(quick, async () => {
    for (let turn = 0; turn < burstsPerBatch; turn++) {
      for (const name of names) queue.add(name)
      while (queue.size > 0) {
        const item = await queue.take()
        handled += item.length
        queue.done(item)
      }
    }
  })
}

const plainTried: Contestant = async ({ quick }) => {
  const names = freshNames(burst)
  const queue = new PlainQueue()
  return cycled(quick, () => {
    for (let turn = 0; turn < burstsPerBatch; turn++) {
      for (const name of names) queue.add(name)
      while (queue.size > 0) {
        const item = queue.take()
        handled += item.length
        queue.done(item)
      }
    }
  })
}

const repeated: Contestant = async ({ quick }) => {
  const names = freshNames(burst)
  const queue = new WorkQueue<string>()
  for (const name of names) queue.add(name)
  const rate = await rateOf(paceOf(quick), perBatch, () => {
    for (let turn = 0; turn < burstsPerBatch; turn++) {
      for (const name of names) if (queue.add(name)) throw new Error('A queued item was added twice.')
    }
  })
  return { rate }
}

/** No peer de-duplicates; the least anyone can do is look the item up. */
const lookedUp: Contestant = async ({ quick }) => {
  const names = freshNames(burst)
  const queued = new Map(names.map((name) => [name, name]))
  const rate = await rateOf(paceOf(quick), perBatch, () => {
    for (let turn = 0; turn < burstsPerBatch; turn++) {
      for (const name of names) if (!queued.has(name)) throw new Error('A queued item is missing.')
    }
  })
  return { rate }
}

const rate = { unit: 'M/s', better: 'higher', figure: 'rate' } as const

export const cycleTrials: readonly Trial[] = [
  {
    name: 'cycle',
    contestants: { signalbox: awaited, fastq: fastqStream, limit: plainAwaited },
    cases: [
      {
        ...rate,
        name: 'cycle',
        peers: ['fastq'],
        goal: atLeastTimes(1, 'fastq', 'stretch 1.2 x'),
        constants: { 'client-go': '2.4-4.2' },
      },
    ],
  },
  {
    name: 'cycle-sync',
    contestants: { signalbox: tried, fastq: fastqStream, 'fastq held': fastqHeld, limit: plainTried },
    cases: [
      {
        ...rate,
        name: 'cycle-sync',
        peers: ['fastq', 'fastq held'],
        goal: atLeastTimes(1, 'fastq', 'stretch 1.2 x'),
        constants: { 'client-go': '2.4-4.2' },
      },
    ],
  },
  {
    name: 'dedup-add',
    contestants: { signalbox: repeated, limit: lookedUp },
    cases: [
      {
        ...rate,
        name: 'dedup-add',
        peers: [],
        goal: atLeast(16, "client-go's low figure, a constant"),
        constants: { 'client-go': '16-34' },
      },
    ],
  },
]
