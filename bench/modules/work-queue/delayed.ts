/**
 * A million names under random delays on a clock moved by hand: all are added, all fall due at once, all are taken
 * and done. No peer has delays, so the rate is held against the plain million of the same run.
 */
import { createFakeClock } from 'signalbox/testing'
import { DelayingQueue } from 'signalbox/workqueue'
import type { Contestant, Trial } from '../../case.ts'
import { atLeastTimes, atMost } from '../../goal.ts'
import { bytesHeld, rateOfOne } from '../../stopwatch.ts'
import { delays, freshNames, million } from './items.ts'
import { signalboxMillion } from './million.ts'
import { PlainQueue } from './plain.ts'

const longestMs = 3_600_000

interface Load {
  delayAll(names: readonly string[], ms: Float64Array): void
  /** Lets everything fall due, takes and ends it; answers how many there were. */
  fireAndTakeAll(): number
}

/** In the order of the plain million: warm up, time, weigh. */
async function loaded(create: () => Load): Promise<{ rate: number; bytes: number }> {
  for (let warmUp = 0; warmUp < 3; warmUp++) {
    const load = create()
    load.delayAll(freshNames(50_000), delays(50_000, longestMs))
    load.fireAndTakeAll()
  }

  const names = freshNames(million)
  const ms = delays(million, longestMs)
  const load = create()
  let taken = 0
  const rate = await rateOfOne(million, () => {
    load.delayAll(names, ms)
    taken = load.fireAndTakeAll()
  })
  if (taken !== million) throw new Error(`${taken} of ${million} items came out.`)
  return { rate, bytes: weigh(names, ms, create()) }
}

function weigh(names: readonly string[], ms: Float64Array, load: Load): number {
  const before = bytesHeld()
  load.delayAll(names, ms)
  const bytes = (bytesHeld() - before) / names.length
  // Also keeps names and queue alive until both readings are taken.
  if (load.fireAndTakeAll() !== names.length) throw new Error('Not every item came out.')
  return bytes
}

const signalbox: Contestant = () =>
  loaded(() => {
    const clock = createFakeClock()
    const queue = new DelayingQueue<string>({ clock })
    return {
      delayAll(names, ms) {
        for (let at = 0; at < names.length; at++) queue.addAfter(names[at]!, ms[at]!)
      },
      fireAndTakeAll() {
        // The timer is armed for ten seconds at most; when it fires, the clock already reads the end.
        clock.jump(longestMs)
        while (queue.waiting > 0) clock.advance(10_000)
        let count = 0
        for (let work = queue.tryGet(); work && !work.shutdown; work = queue.tryGet()) {
          queue.done(work.item)
          count++
        }
        return count
      },
    }
  })

/**
 * The plainest delays: remember the due time of each name (the earliest stands), sort when they fire. It cannot
 * release one item without sorting them all, which this load never asks for.
 */
const limit: Contestant = () =>
  loaded(() => {
    const queue = new PlainQueue()
    const dueAt = new Map<string, number>()
    return {
      delayAll(names, ms) {
        for (let at = 0; at < names.length; at++) {
          const known = dueAt.get(names[at]!)
          if (known === undefined || ms[at]! < known) dueAt.set(names[at]!, ms[at]!)
        }
      },
      fireAndTakeAll() {
        for (const [name] of [...dueAt].sort((a, b) => a[1] - b[1])) queue.add(name)
        dueAt.clear()
        let count = 0
        for (; queue.size > 0; count++) queue.done(queue.take())
        return count
      },
    }
  })

export const delayedTrial: Trial = {
  name: 'delayed',
  contestants: { signalbox, 'signalbox plain': signalboxMillion, limit },
  cases: [
    {
      name: 'million-delayed',
      unit: 'M/s',
      better: 'higher',
      figure: 'rate',
      peers: ['signalbox plain'],
      goal: atLeastTimes(0.4, 'signalbox plain'),
      constants: { 'client-go': '0.15-0.26' },
    },
    {
      name: 'delayed-bytes',
      unit: 'bytes/item',
      better: 'lower',
      figure: 'bytes',
      peers: [],
      goal: atMost(110),
      constants: { 'client-go': '104' },
    },
  ],
}
