/**
 * What an operation costs with a million items pending, over what it costs with a thousand. Both queues live in one
 * process and take turns in short pieces: the figure is a ratio of two medians that saw the same machine.
 *
 *   growth           100 names of a higher priority are added, taken and ended, while the others stay queued: what the
 *                    queue itself adds to an operation
 *   growth-turnover  every item takes its turn: taken, ended, added again at the end. A million items do not fit the
 *                    processor's caches, which the plainest code pays for too: it is held to that one's growth
 */
import { WorkQueue } from 'signalbox/workqueue'
import type { Contestant, Trial } from '../../case.ts'
import { atMost, atMostTimes } from '../../goal.ts'
import { median } from '../../summary.ts'
import { burst, freshNames } from './items.ts'
import { PlainQueue } from './plain.ts'

const few = 1_000
const many = 1_000_000
const operationsPerPiece = 20_000

/** Adds, takes and ends, `count` times. */
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

const signalboxBusy: Contestant = ({ quick }) =>
  growthOf(quick, (names) => {
    const queue = new WorkQueue<string>()
    for (const name of names) queue.add(name)
    const busy = freshNames(burst, 2 * many)
    return (count) => {
      for (let left = count; left > 0; left -= busy.length) {
        for (const name of busy) queue.add(name, { priority: 1 })
        for (let taken = busy.length; taken > 0; taken--) {
          const work = queue.tryGet()
          if (!work || work.shutdown || work.priority !== 1) throw new Error('Another item came first.')
          queue.done(work.item)
        }
      }
    }
  })

const signalboxTurnover: Contestant = ({ quick }) =>
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

const plainTurnover: Contestant = ({ quick }) =>
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

const growth = { unit: 'x from 1 k to 1 M', better: 'lower', figure: 'growth', peers: [] } as const

export const growthTrials: readonly Trial[] = [
  {
    name: 'growth',
    contestants: { signalbox: signalboxBusy },
    cases: [{ ...growth, name: 'growth', goal: atMost(2) }],
  },
  {
    name: 'growth-turnover',
    contestants: { signalbox: signalboxTurnover, limit: plainTurnover },
    cases: [{ ...growth, name: 'growth-turnover', goal: atMostTimes(1.2, 'limit') }],
  },
]
