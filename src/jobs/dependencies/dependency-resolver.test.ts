import assert from 'node:assert/strict'
import { afterEach, test, vi } from 'vitest'
import type { JobStore } from '../job-store.ts'
import { createDependencyResolver, wakeResolvers } from './dependency-resolver.ts'
import type { DependencyStore, LockDependency } from './dependency-store.ts'
import type { JobLocks } from './job-locks.ts'

const waiting: LockDependency = {
  ...{ jobId: 'j', operation: 'pull', resource: 'nginx', askNo: 1, fence: null },
  ...{ isTaken: false, state: 'waiting', dueInMs: 0 },
}

/** A resolver of one job that waits for a lock, as long as `lock` is there. */
function keepOne(ask: JobLocks['ask']) {
  const stage = {
    lock: waiting as LockDependency | undefined,
    ready: [] as string[],
    listeners: 0,
    heard: () => {},
  }
  const dependencies = {
    tend: async () => (stage.lock ? [stage.lock] : []),
    hasBlocked: async () => stage.lock !== undefined,
    unmet: async () => [],
    grant: async () => {
      stage.lock = { ...waiting, state: 'ready', fence: 7 }
      return 'default'
    },
  } as unknown as DependencyStore
  const locks = {
    ask,
    renew: async () => true,
    listen(_, heard) {
      stage.listeners++
      stage.heard = heard
      return () => {
        stage.listeners--
        stage.heard = () => {}
      }
    },
  } as Partial<JobLocks> as JobLocks
  const notifier = { wake: (topic: string) => void stage.ready.push(topic), listen: () => () => {} }
  const loop = createDependencyResolver({ dependencies, locks, notifier, store: {} as JobStore })
  return { stage, [Symbol.asyncDispose]: () => loop[Symbol.asyncDispose]() }
}

/** In small steps, with a turn of the event loop after each: a resolver that steps takes several. */
async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 100) {
    await vi.advanceTimersByTimeAsync(100)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

afterEach(() => {
  vi.useRealTimers()
})

test('a job whose lock is granted while its request is still answered continues at once', async () => {
  let asks = 0
  await using resolver = keepOne(async () => {
    if (++asks > 1) return { fence: 7 }
    // Its place in line is taken; before it learns that, the holder releases the lock and sends a wake-up.
    resolver.stage.heard()
    return 'waits'
  })
  const { stage } = resolver
  await vi.waitFor(() => assert.deepEqual(stage.ready, ['jobs:default']), { timeout: 500, interval: 5 })
  await vi.waitFor(() => assert.equal(stage.listeners, 0, 'it has what it listened for'), 10_000)
})

test('a job that another resolver unblocked is no longer watched', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  await using resolver = keepOne(async () => 'waits')
  const { stage } = resolver
  await pass(5_000)
  assert.equal(stage.listeners, 1)
  stage.lock = undefined
  stage.heard()
  await pass(10)
  assert.equal(stage.listeners, 0, 'it was called, and there was nothing to tend')

  stage.lock = waiting
  await pass(6_000)
  assert.equal(stage.listeners, 1)
  stage.lock = undefined
  await pass(20_000)
  assert.equal(stage.listeners, 0, 'it was called again')
})

test('the end of a job that another resolver tends is still awaited, and read once a second', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  const tended: (readonly string[] | undefined)[] = []
  const dependencies = {
    tend: async ({ of }) => {
      tended.push(of)
      return []
    },
    unmet: async () => [],
    hasBlocked: async () => true,
  } as Partial<DependencyStore> as DependencyStore
  const notifier = { wake: () => undefined, listen: () => () => undefined }
  await using _ = createDependencyResolver({
    dependencies,
    locks: {} as JobLocks,
    notifier,
    store: {} as JobStore,
  })
  await pass(3_000)
  // Wake-ups do not make it poll more often.
  for (const id of ['a', 'b', 'c', 'd']) {
    wakeResolvers(notifier, [id])
    await pass(100)
  }
  assert.deepEqual(
    tended.flatMap((of) => of ?? []),
    ['a', 'b', 'c', 'd'],
  )
  tended.length = 0
  await pass(5_000)
  assert.ok(tended.length >= 4 && tended.length <= 6, `${tended.length} polls in five seconds`)
})

test('a job that must wait for its lock again wakes other processes when no local resolver runs', () => {
  const woken: string[] = []
  const notifier = { wake: (topic: string) => void woken.push(topic), listen: () => () => undefined }
  wakeResolvers(notifier, ['a'])
  assert.deepEqual(woken, [])
  wakeResolvers(notifier, ['a'], true)
  assert.deepEqual(woken, ['jobs.dependencies'])
})
