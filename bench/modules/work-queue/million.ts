/**
 * A million distinct names queued, then all taken and done; and what a queued one weighs. The weight is that of the
 * queue alone: the names exist before the first reading. `--quick` keeps the million and saves on rounds only: a tenth
 * of it would be another figure, not a shorter way to this one.
 */
import { WorkQueue } from 'signalbox/workqueue'
import type { Contestant, Trial } from '../../case.ts'
import { atLeastTimes, atMost } from '../../goal.ts'
import { bytesHeld, rateOfOne } from '../../stopwatch.ts'
import { type Later, openFastq } from './fastq.ts'
import { freshNames, million } from './items.ts'
import { PlainQueue } from './plain.ts'

/** A queue with nothing in it, seen as the two halves of the work. */
interface Load {
  queueAll(names: readonly string[]): void
  /** Takes and ends everything; answers how many there were. */
  takeAll(): number | Promise<number>
}

/**
 * Warms up, times the whole, then weighs. In this order, because a heap that has held a million items once takes the next
 * million much faster, and most so for the contestant that allocates most.
 */
async function loaded(create: () => Load): Promise<{ rate: number; bytes: number }> {
  for (let warmUp = 0; warmUp < 3; warmUp++) {
    const load = create()
    load.queueAll(freshNames(50_000))
    await load.takeAll()
  }

  const names = freshNames(million)
  const load = create()
  let taken = 0
  const rate = await rateOfOne(million, async () => {
    load.queueAll(names)
    taken = await load.takeAll()
  })
  if (taken !== million) throw new Error(`${taken} of ${million} items came out.`)
  return { rate, bytes: await weigh(names, create()) }
}

async function weigh(names: readonly string[], load: Load): Promise<number> {
  const before = bytesHeld()
  load.queueAll(names)
  const bytes = (bytesHeld() - before) / names.length
  // Also keeps names and queue alive until both readings are taken.
  if ((await load.takeAll()) !== names.length) throw new Error('Not every item came out.')
  return bytes
}

/** Exported for the delayed trial, whose goal is a share of this rate. */
export const signalboxMillion: Contestant = () =>
  loaded(() => {
    const queue = new WorkQueue<string>()
    return {
      queueAll(names) {
        for (const name of names) queue.add(name)
      },
      takeAll() {
        let count = 0
        for (let work = queue.tryGet(); work && !work.shutdown; work = queue.tryGet()) {
          queue.done(work.item)
          count++
        }
        return count
      },
    }
  })

const fastqMillion =
  (answer: Later): Contestant =>
  async () => {
    // Made beforehand: `create` below is synchronous, and each load needs a separate queue.
    const spare = await Promise.all(Array.from({ length: 5 }, () => openFastq(answer)))
    return loaded(() => {
      const { queue, push } = spare.pop()!
      let pushed = 0
      // Paused, or a part would be worked off while the rest is queued.
      queue.pause()
      return {
        queueAll(names) {
          for (const name of names) push(name)
          pushed = names.length
        },
        takeAll() {
          const { promise, resolve } = Promise.withResolvers<number>()
          queue.drain = () => resolve(pushed)
          queue.resume()
          return promise
        },
      }
    })
  }

const plainMillion: Contestant = () =>
  loaded(() => {
    const queue = new PlainQueue()
    return {
      queueAll(names) {
        for (const name of names) queue.add(name)
      },
      takeAll() {
        let count = 0
        for (; queue.size > 0; count++) queue.done(queue.take())
        return count
      },
    }
  })

export const millionTrial: Trial = {
  name: 'million',
  contestants: {
    signalbox: signalboxMillion,
    fastq: fastqMillion('setImmediate'),
    'fastq nextTick': fastqMillion('nextTick'),
    'fastq microtask': fastqMillion('microtask'),
    limit: plainMillion,
  },
  cases: [
    {
      name: 'million-distinct',
      unit: 'M/s',
      better: 'higher',
      figure: 'rate',
      peers: ['fastq', 'fastq nextTick', 'fastq microtask'],
      goal: atLeastTimes(2, 'fastq', 'answering by setImmediate'),
      constants: { 'client-go': '0.78-1.17' },
    },
    {
      name: 'million-bytes',
      unit: 'bytes/item',
      better: 'lower',
      figure: 'bytes',
      peers: ['fastq'],
      goal: atMost(110),
      constants: { 'client-go': '73' },
    },
  ],
}
