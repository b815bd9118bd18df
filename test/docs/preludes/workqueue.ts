import assert from 'node:assert/strict'
import { register } from 'prom-client'
import { RateLimitingQueue } from 'signalbox/workqueue'
import { around, check } from '../prelude.ts'

export interface Pod {
  readonly namespace: string
  readonly name: string
  readonly version: number
}
export const podV1: Pod = { namespace: 'default', name: 'web', version: 1 }
export const podV2: Pod = { ...podV1, version: 2 }

export let queue: RateLimitingQueue<string>
export let signal: AbortSignal
let reconciled: string[] = []

/** Fails once, so that there is something to try again; when all is done, there is no more. */
export async function reconcile(item: string): Promise<void> {
  reconciled.push(item)
  if (reconciled.length === 3) queue.shutDown()
  if (item === 'flaky' && reconciled.filter((each) => each === item).length === 1) throw new Error('not yet')
}
export function log(error: unknown, item: string): void {
  console.error(item, error)
}

around(({ key }) => {
  reconciled = []
  queue = new RateLimitingQueue()
  signal = new AbortController().signal
  // The loop over items does not retry: an error of reconcile ends it.
  const isLoop = key === 'Consume items #2'
  for (const item of isLoop ? ['steady'] : ['flaky', 'steady']) queue.add(item)
  if (isLoop) setTimeout(() => queue.shutDown(), 50)
})

const all = ['flaky', 'flaky', 'steady']
const sorted = () => reconciled.toSorted()
check('The work queue', () => assert.deepEqual(sorted(), all))
check('Consume items', () => assert.deepEqual(sorted(), all))
check('Consume items #2', () => assert.deepEqual(sorted(), ['steady']))
check('Consume items #3', ({ values: { work } }) => {
  assert.equal(work.item, 'flaky')
  assert.equal(queue.stats().processing, 1)
})
check('Keys', async ({ values: { pods } }) => {
  assert.equal(pods.size, 1)
  assert.equal((await pods.get()).item, podV2)
})

check('Metrics', async ({ values: { queue, scrape } }) => {
  assert.match(scrape, /^workqueue_unfinished_work_seconds\{name="pods"\} 0$/m)
  queue.add('default/web')
  const work = await queue.get()
  queue.addRateLimited('default/db')
  // It would come in a few milliseconds.
  queue.cancelAfter('default/db')
  queue.done(work.item)
  queue.add('default/web')
  const text = await register.metrics()
  for (const line of [
    'depth{name="pods"} 1',
    'adds_total{name="pods"} 2',
    'retries_total{name="pods"} 1',
    'queue_duration_seconds_count{name="pods"} 1',
    'work_duration_seconds_count{name="pods"} 1',
    'longest_running_processor_seconds{name="pods"} 0',
  ])
    assert.ok(text.split('\n').includes(`workqueue_${line}`), line)
})
