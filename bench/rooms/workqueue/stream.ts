/**
 * One producer, one consumer, every name new, the handler an async function. The producer queues 100, waits until
 * they are handled, queues the next 100. Each library waits in its own words: for all promises of the pushes with fastq
 * and p-queue, so that no failure goes unheard; by `onIdle` with Signalbox, where a failure ends the run.
 */
import { WorkQueue } from 'signalbox/workqueue'
import type { Contestant, Trial } from '../../case.ts'
import { allOf, atLeastTimes } from '../../goal.ts'
import { rateOfOne } from '../../stopwatch.ts'
import { burst, freshNames } from './items.ts'
import { PlainQueue } from './plain.ts'

const warmUp = 300_000
let handled = 0

async function handle(name: string): Promise<void> {
  handled += name.length
}

/** Streams a warm-up, long enough for the compiler to settle, then the names that count. */
async function streamed(
  quick: boolean,
  stream: (names: readonly string[]) => Promise<void>,
): Promise<number> {
  const count = quick ? 150_000 : 500_000
  await stream(freshNames(warmUp))
  const names = freshNames(count, warmUp)
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
      const pushes: Promise<void>[] = []
      for (let at = from; at < from + burst; at++) pushes.push(queue.push(names[at]!))
      await Promise.all(pushes)
    }
  })
  return { rate }
}

const pQueue: Contestant = async ({ quick }) => {
  const { default: PQueue } = await import('p-queue')
  const queue = new PQueue({ concurrency: 1 })
  const rate = await streamed(quick, async (names) => {
    for (let from = 0; from < names.length; from += burst) {
      const adds: Promise<void>[] = []
      for (let at = from; at < from + burst; at++) adds.push(queue.add(() => handle(names[at]!)))
      await Promise.all(adds)
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
