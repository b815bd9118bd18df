/**
 * add, get, done over 100 names in a steady state: the producer queues all of them, the consumer takes and ends them
 * one by one. `cycle` takes with `tryGet()`, which like client-go's Get returns at once while there is something to
 * take; `cycle-await` with `await get()`, which gives up its turn each time. fastq has the same load: 100 pushes, one
 * worker; see fastq.ts for its forms.
 */
import { WorkQueue } from 'signalbox/workqueue'
import type { Contestant, Figures, Trial } from '../../case.ts'
import { atLeast, atLeastTimes } from '../../goal.ts'
import { paceOf, rateOf } from '../../stopwatch.ts'
import { type Later, openFastq } from './fastq.ts'
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

const fastqStream =
  (answer: Later): Contestant =>
  async ({ quick }) => {
    const names = freshNames(burst)
    const { queue, push } = await openFastq(answer)
    return cycled(quick, async () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      let left = burstsPerBatch
      queue.drain = () => {
        handled++
        if (left-- === 0) resolve()
        else for (const name of names) push(name)
      }
      queue.drain()
      await promise
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

function cycleTrial(name: string, signalbox: Contestant, limit: Contestant): Trial {
  return {
    name,
    contestants: {
      signalbox,
      fastq: fastqStream('nextTick'),
      'fastq microtask': fastqStream('microtask'),
      limit,
    },
    cases: [
      {
        ...rate,
        name,
        peers: ['fastq', 'fastq microtask'],
        goal: atLeastTimes(1, 'fastq', 'stretch 1.2 x'),
        constants: { 'client-go': '2.4-4.2' },
      },
    ],
  }
}

export const cycleTrials: readonly Trial[] = [
  cycleTrial('cycle', tried, plainTried),
  cycleTrial('cycle-await', awaited, plainAwaited),
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
