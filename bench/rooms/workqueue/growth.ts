/**
 * What an operation costs with a million items pending, over what it costs with a thousand. One operation takes an
 * item, ends it and adds it again, so the number of pending items stays. Both queues live in one process and take
 * turns in short pieces: the figure is a ratio of two medians that saw the same machine. It is not 1 even for the
 * plainest code, because a million items do not fit the processor's caches.
 */
import { WorkQueue } from 'signalbox/workqueue'
import type { Contestant, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'
import { median } from '../../summary.ts'
import { freshNames } from './items.ts'
import { PlainQueue } from './plain.ts'

const few = 1_000
const many = 1_000_000
const operationsPerPiece = 20_000

/** Takes, ends and adds again, `count` times. */
type Turnover = (count: number) => void

function growthOf(quick: boolean, fill: (names: readonly string[]) => Turnover): Record<string, number> {
  const pieces = quick ? 25 : 50
  const small = fill(freshNames(few))
  const large = fill(freshNames(many, few))
  const smallNs: number[] = []
  const largeNs: number[] = []
  // The first pieces warm up.
  for (let piece = -10; piece < pieces; piece++) {
    const atSmall = nsPerOperation(small)
    const atLarge = nsPerOperation(large)
    if (piece < 0) continue
    smallNs.push(atSmall)
    largeNs.push(atLarge)
  }
  return { growth: median(largeNs) / median(smallNs), fewNs: median(smallNs), manyNs: median(largeNs) }
}

function nsPerOperation(turnover: Turnover): number {
  const startedAt = performance.now()
  turnover(operationsPerPiece)
  return ((performance.now() - startedAt) * 1e6) / operationsPerPiece
}

const signalbox: Contestant = ({ quick }) =>
  growthOf(quick, (names) => {
    const queue = new WorkQueue<string>()
    for (const name of names) queue.add(name)
    return (count) => {
      for (let left = count; left > 0; left--) {
        const work = queue.tryGet()
        if (!work || work.shutdown) throw new Error('The queue ran empty.')
        queue.done(work.item)
        queue.add(work.item)
      }
    }
  })

const limit: Contestant = ({ quick }) =>
  growthOf(quick, (names) => {
    const queue = new PlainQueue()
    for (const name of names) queue.add(name)
    return (count) => {
      for (let left = count; left > 0; left--) {
        const item = queue.take()
        queue.done(item)
        queue.add(item)
      }
    }
  })

export const growthTrial: Trial = {
  name: 'growth',
  contestants: { signalbox, limit },
  cases: [
    {
      name: 'growth',
      unit: 'x from 1 k to 1 M',
      better: 'lower',
      figure: 'growth',
      peers: [],
      goal: atMost(2),
    },
  ],
}
