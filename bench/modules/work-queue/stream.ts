/**
 * One producer, one consumer, the handler an async function. The producer queues 100 names, waits until they are
 * handled, queues the next 100: in `async-stream` the same hundred over and over, as in `cycle`, and in
 * `async-stream-distinct` a new hundred each time. There fastq and p-queue, which take no notice of names, do less than a
 * work queue must: a new name has to be hashed and entered to be known when it comes again. Each library waits in its own
 * words: for all promises of the pushes with fastq and p-queue, so that no failure goes unheard; by `onIdle` with Signalbox,
 * where a failure ends the run.
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

type Stream = (names: readonly string[]) => Promise<void>

/** Streams a warm-up, long enough for the compiler to settle, then the names that count. */
const streamed =
  (open: () => Promise<{ stream: Stream; close?(): Promise<void> }>, distinct: boolean): Contestant =>
  async ({ quick }) => {
    const { stream, close } = await open()
    const count = quick ? 150_000 : 500_000
    const same = freshNames(burst)
    const names = (from: number, length: number): string[] =>
      distinct ? freshNames(length, from) : Array.from({ length }, (_, at) => same[at % burst]!)
    await stream(names(burst, warmUp))
    const counted = names(burst + warmUp, count)
    const rate = await rateOfOne(count, () => stream(counted))
    await close?.()
    if (handled === 0) throw new Error('Nothing was handled.')
    return { rate }
  }

async function openSignalbox(): Promise<{ stream: Stream; close(): Promise<void> }> {
  const queue = new WorkQueue<string>()
  const running = queue.run(handle)
  return {
    async stream(names) {
      for (let from = 0; from < names.length; from += burst) {
        for (let at = from; at < from + burst; at++) queue.add(names[at]!)
        await queue.onIdle()
      }
    },
    async close() {
      queue.shutDown()
      await running
    },
  }
}

async function openFastqPromise(): Promise<{ stream: Stream }> {
  const { default: fastq } = await import('fastq')
  const queue = fastq.promise<unknown, string, void>(handle, 1)
  return {
    async stream(names) {
      for (let from = 0; from < names.length; from += burst) {
        const pushes: Promise<void>[] = []
        for (let at = from; at < from + burst; at++) pushes.push(queue.push(names[at]!))
        await Promise.all(pushes)
      }
    },
  }
}

async function openPQueue(): Promise<{ stream: Stream }> {
  const { default: PQueue } = await import('p-queue')
  const queue = new PQueue({ concurrency: 1 })
  return {
    async stream(names) {
      for (let from = 0; from < names.length; from += burst) {
        const adds: Promise<void>[] = []
        for (let at = from; at < from + burst; at++) adds.push(queue.add(() => handle(names[at]!)))
        await Promise.all(adds)
      }
    },
  }
}

async function openPlain(): Promise<{ stream: Stream }> {
  const queue = new PlainQueue()
  return {
    async stream(names) {
      for (let from = 0; from < names.length; from += burst) {
        for (let at = from; at < from + burst; at++) queue.add(names[at]!)
        while (queue.size > 0) {
          const item = queue.take()
          await handle(item)
          queue.done(item)
        }
      }
    },
  }
}

function streamTrial(name: string, distinct: boolean): Trial {
  return {
    name,
    contestants: {
      signalbox: streamed(openSignalbox, distinct),
      'fastq.promise': streamed(openFastqPromise, distinct),
      'p-queue': streamed(openPQueue, distinct),
      limit: streamed(openPlain, distinct),
    },
    cases: [
      {
        name,
        unit: 'M/s',
        better: 'higher',
        figure: 'rate',
        peers: ['fastq.promise', 'p-queue'],
        goal: allOf(atLeastTimes(1, 'fastq.promise'), atLeastTimes(3, 'p-queue')),
      },
    ],
  }
}

export const streamTrials: readonly Trial[] = [
  streamTrial('async-stream', false),
  streamTrial('async-stream-distinct', true),
]
