/** How often a box asks what operators want of its workers. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, test, vi } from 'vitest'
import type { WantedMode } from './fleet-worker.ts'
import { createMembership, type Member } from './membership.ts'
import type { WorkerStanding, WorkerStore } from './worker-store.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** A worker whose operator wants what `stage.wanted` says. */
function enlist(hearsOthers?: () => boolean) {
  const stage = {
    wanted: 'run' as WantedMode,
    followed: [] as WantedMode[],
    reads: 0,
    renewals: 0,
    isAway: false,
    wake: () => {},
  }
  const standing = (): WorkerStanding => {
    if (stage.isAway) throw new Error('no answer')
    return { status: 'here', wanted: stage.wanted, graceMs: null }
  }
  const store = {
    join: async (workers) => workers.map(() => true),
    async renew(renewals) {
      stage.renewals++
      return renewals.map(standing)
    },
    async wanted(workers) {
      stage.reads++
      return workers.map(standing)
    },
    leave: async () => undefined,
    prune: async () => 0,
  } as Partial<WorkerStore> as WorkerStore
  const notifier = {
    listen(_: readonly string[], heard: () => void) {
      stage.wake = heard
      return () => undefined
    },
    ...(hearsOthers && { hearsOthers }),
  }
  const handle = createMembership({ store, notifier }).join({
    facts: { workerId: 'ada' } as Member['facts'],
    look: () => ({ mode: 'running', running: [], runningCount: 0 }),
    follow: (wanted) => void stage.followed.push(wanted),
    failed: () => undefined,
  })
  return { stage, [Symbol.asyncDispose]: () => handle.leave() }
}

async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 100) {
    await vi.advanceTimersByTimeAsync(100)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('without wake-ups of other processes, a worker obeys operators within two seconds', async () => {
  for (const hearsOthers of [undefined, () => false]) {
    await using member = enlist(hearsOthers)
    const { stage } = member
    await pass(30_000)
    assert.ok(stage.reads >= 15, `${stage.reads} reads in 30 s`)
    stage.wanted = 'quiet'
    await pass(2_000)
    assert.deepEqual(stage.followed, ['quiet'])
  }
})

test("while wake-ups arrive, only they and renewals read an operator's requests", async () => {
  await using member = enlist(() => true)
  const { stage } = member
  await pass(1_000)
  Object.assign(stage, { reads: 0, renewals: 0 })
  await pass(60_000)
  assert.equal(stage.reads, 0)
  assert.ok(stage.renewals >= 5 && stage.renewals <= 8, `${stage.renewals} renewals in a minute`)
  stage.wanted = 'quiet'
  stage.wake()
  await pass(600)
  assert.deepEqual(stage.followed, ['quiet'])
  // A wake-up that was lost.
  stage.wanted = 'run'
  await pass(10_100)
  assert.deepEqual(stage.followed, ['quiet', 'run'])
})

test('a wake-up is not forgotten when the store does not answer', async () => {
  await using member = enlist(() => true)
  const { stage } = member
  await pass(2_000)
  Object.assign(stage, { isAway: true, wanted: 'quiet' })
  stage.wake()
  await pass(700)
  stage.isAway = false
  const { renewals } = stage
  await pass(2_000)
  assert.deepEqual([stage.followed, stage.renewals], [['quiet'], renewals])
})
