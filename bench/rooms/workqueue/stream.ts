/**
 * One producer, one consumer, every name new, the handler an async function. The producer queues 100, waits until
 * they are handled, queues the next 100. Each library waits in its own words: the last push's promise for fastq and
 * p-queue (one consumer, first in first out: it is the last to settle), `onIdle` for Signalbox.
 */
import { WorkQueue } from 'signalbox/workqueue'
import type { Contestant, Trial } from '../../case.ts'
import { allOf, atLeastTimes } from '../../goal.ts'
import { rateOfOne } from '../../stopwatch.ts'
import { burst, freshNames } from './items.ts'
import { PlainQueue } from './plain.ts'

let handled = 0

async function handle(name: string): Promise<void> {
  handled += name.length
}

/** Streams a warm-up, then the names that count. */
async function streamed(
  quick: boolean,
  stream: (names: readonly string[]) => Promise<void>,
): Promise<number> {
  const count = quick ? 150_000 : 500_000
  await stream(freshNames(50_000))
  const names = freshNames(count, 50_000)
  const rate = await rateOfOne(count, () => stream(names))
  if (handled === 0) throw new Error('Nothing was handled.')
  return rate
}

const signalbox: Contestant = async ({ quick }) => {
  const queue = new WorkQueue<string>()
  const running = queue.run(handle)
  const rate = await streamed(quick, async (names) => {
    for (let from = 0; from < names.length; from += burst) {
      for (let at = from; at < from + burst; at++) queue.add(names[at]!)
      await queue.onIdle()
    }
  })
  queue.shutDown()
  await running
  return { rate }
}

const fastqPromise: Contestant = async ({ quick }) => {
  const { default: fastq } = await import('fastq')
  const queue = fastq.promise<unknown, string, void>(handle, 1)
  const rate = await streamed(quick, async (names) => {
    for (let from = 0; from < names.length; from += burst) {
      let last: Promise<void> | undefined
      for (let at = from; at < from + burst; at++) last = queue.push(names[at]!)
      await last
    }
  })
  return { rate }
}

const pQueue: Contestant = async ({ quick }) => {
  const { default: PQueue } = await import('p-queue')
  const queue = new PQueue({ concurrency: 1 })
  const rate = await streamed(quick, async (names) => {
    for (let from = 0; from < names.length; from += burst) {
      let last: Promise<void> | undefined
      for (let at = from; at < from + burst; at++) last = queue.add(() => handle(names[at]!))
      await last
    }
  })
  return { rate }
}

const plain: Contestant = async ({ quick }) => {
  const queue = new PlainQueue()
  const rate = await streamed(quick, async (names) => {
    for (let from = 0; from < names.length; from += burst) {
      for (let at = from; at < from + burst; at++) queue.add(names[at]!)
      while (queue.size > 0) {
        const item = queue.take()
        await handle(item)
        queue.done(item)
      }
    }
  })
  return { rate }
}

export const streamTrial: Trial = {
  name: 'async-stream',
  contestants: { signalbox, 'fastq.promise': fastqPromise, 'p-queue': pQueue, limit: plain },
  cases: [
    {
      name: 'async-stream',
      unit: 'M/s',
      better: 'higher',
      figure: 'rate',
      peers: ['fastq.promise', 'p-queue'],
      goal: allOf(atLeastTimes(1, 'fastq.promise'), atLeastTimes(3, 'p-queue')),
    },
  ],
}
