/**
 * A small controller: it is told what should be (replicas per deployment), looks at what is, and takes one step at a
 * time until the two agree. Events only name what changed; the work queue sees to the rest:
 *
 *   - ten events for one deployment become one turn, and no deployment is in two hands;
 *   - what fails comes back with back-off, and is given up after `maxRetries`;
 *   - at the end the queue is drained: what was queued or in hand has had its turn.
 *
 * Run it: npx node --conditions=source examples/controller.ts
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { ItemExponentialFailureRateLimiter, RateLimitingQueue } from 'signalbox/workqueue'

const desired = new Map<string, number>()
const running = new Map<string, number>()
const turns = new Map<string, number>()
let callCount = 0
let failureCount = 0

const queue = new RateLimitingQueue<string>({
  name: 'deployments',
  metrics: {},
  rateLimiter: new ItemExponentialFailureRateLimiter(10, 1_000, { jitter: 0.2 }),
})

/** One step towards what should be. It may be called too often, never too seldom, and never twice at once. */
async function reconcile(name: string): Promise<void> {
  turns.set(name, (turns.get(name) ?? 0) + 1)
  await sleep(2)
  // Every fifth call fails, and those for "shop/broken" all do.
  if (name === 'shop/broken' || ++callCount % 5 === 0)
    throw new Error(`the cluster did not answer for ${name}`)
  const [want, have] = [desired.get(name) ?? 0, running.get(name) ?? 0]
  if (want === have) return
  running.set(name, have + Math.sign(want - have))
  console.log(`${name}: ${running.get(name)} of ${want}`)
  // Not there yet: another turn, after those that wait already.
  queue.add(name)
}

const controller = queue.run(reconcile, {
  concurrency: 4,
  maxRetries: 5,
  onError: (error, name) => {
    failureCount++
    const attempt = queue.numRequeues(name) + 1
    console.log(`${name}: attempt ${attempt} failed: ${(error as Error).message}`)
  },
})

// A burst of changes, most of them to the same few deployments.
for (const [name, replicas] of [
  ['shop/web', 3],
  ['shop/cart', 2],
  ['shop/broken', 1],
  ['blog/web', 1],
  ['shop/web', 5],
  ['shop/web', 4],
] as const) {
  desired.set(name, replicas)
  queue.add(name)
}

// Nothing queued, in hand or waiting for its next attempt: every deployment is as it should be, or was given up.
do {
  await queue.onIdle()
  await sleep(5)
} while (queue.waiting > 0 || queue.size > 0 || queue.processing > 0)

assert.deepEqual(Object.fromEntries(running), { 'shop/web': 4, 'shop/cart': 2, 'blog/web': 1 })
assert.equal(turns.get('shop/broken'), 6, 'one attempt and five retries, then given up')
assert.equal(queue.numRequeues('shop/broken'), 0, 'and forgotten')

// Shutting down with work at hand: all of it has its turn. Retries are refused from here on; a controller that
// starts again lists everything first, so what failed in its last turn is not lost.
const before = callCount
for (const name of ['shop/web', 'shop/cart', 'blog/web']) queue.add(name)
await queue.shutDownWithDrain()
await controller
assert.equal(callCount - before, 3)

const { adds, retries, depth } = queue.stats()
assert.equal(depth, 0)
console.log(`drained: ${adds} turns, ${retries} retries, ${failureCount} failures, nothing left`)
