import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { CommandKind } from '../../../src/dispatch/registry/command.ts'
import type { Dispatch } from '../../../src/dispatch/tasks/task.ts'
import { serverCounts, startServers } from '../cluster/stage.ts'
import { FakeNode, obliging, openStore, slowed, until } from './stage.ts'

/** Ten times what is promised. */
const longestWaitMs = 100
/** What is done when there is time, and may wait for that. */
const background: ReadonlySet<CommandKind> = new Set(['rebuild', 'rebuildSlice', 'tick', 'definePool'])

/**
 * The longest waits by kind of command, less what the machine took away from this thread meanwhile: the thread is kept
 * busy, so that whatever time it did not get is time that others had.
 */
function createMeter() {
  const longest = new Map<CommandKind, number>()
  const samples: { at: number; takenMs: number }[] = [{ at: performance.now(), takenMs: 0 }]
  let cpu = process.threadCpuUsage()
  let isOn = true
  const sample = () => {
    const last = samples.at(-1)!
    const at = performance.now()
    const used = process.threadCpuUsage(cpu)
    const takenMs = Math.max(0, at - last.at - (used.user + used.system) / 1_000)
    cpu = process.threadCpuUsage()
    samples.push({ at, takenMs: last.takenMs + takenMs })
  }
  const spin = () => {
    sample()
    if (isOn) setImmediate(spin)
  }
  const takenBefore = (at: number) => {
    let [low, high] = [0, samples.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (samples[middle]!.at <= at) low = middle
      else high = middle - 1
    }
    return samples[low]!.takenMs
  }
  spin()
  return {
    observe(kind: CommandKind, waitMs: number): void {
      sample()
      const { at, takenMs } = samples.at(-1)!
      const ownMs = waitMs - (takenMs - takenBefore(at - waitMs))
      longest.set(kind, Math.max(longest.get(kind) ?? 0, ownMs))
    },
    /** What came before was only to warm up. */
    begin: () => longest.clear(),
    check(): readonly CommandKind[] {
      for (const [kind, waitMs] of longest) {
        const isShort = background.has(kind) || waitMs < longestWaitMs
        assert.ok(isShort, `${kind} waited ${waitMs.toFixed(1)} ms`)
      }
      return [...longest.keys()]
    },
    [Symbol.dispose](): void {
      isOn = false
    },
  }
}

/** Lets `count` nodes send heartbeats every few milliseconds, one after the other, as nodes do that connected at different times. */
function beat(nodes: readonly FakeNode[], count: number) {
  const load = { cpu: 0.5, gpu: 0.5, memory: 0.5 }
  let next = 0
  const timer = setInterval(() => {
    for (let left = count; left > 0; left -= 1) {
      next = (next + 1) % nodes.length
      nodes[next]!.say({ type: 'heartbeat', load, running: null, countedSeq: null })
    }
  }, 5)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

async function warmUp(first: Dispatch, last: Dispatch): Promise<void> {
  await submitMany(last, 200)
  await until('it is warm', () => first.counts().completed === 200)
}

function submitMany(dispatch: Dispatch, count: number) {
  return Promise.all(
    Array.from({ length: count }, (_, payload) => dispatch.submit({ service: 'nmt', payload })),
  )
}

for (const count of serverCounts) {
  const where = count === 1 ? 'one server' : `${count} servers`

  test(`scenario 1 (${where}): heartbeats do not delay the dispatch of tasks`, async () => {
    await using store = await openStore('memory')
    using meter = createMeter()
    const { observe, begin, check } = meter
    await using servers = await startServers(store, count, {}, { observe })
    const { first, last } = servers
    const nodes = Array.from(
      { length: 200 },
      (_, index) => new FakeNode(first, { nodeId: `n${index}`, services: { nmt: 4 }, onTask: obliging }),
    )
    using _beats = beat(nodes, 50)
    await warmUp(first, last)
    begin()
    await submitMany(last, 1_000)
    await until('all are done', () => first.counts().completed === 1_200, 30_000)
    const kinds = check()
    assert.ok(kinds.includes('heartbeat') && kinds.includes('submit') && kinds.includes('result'))
  })

  test(`scenario 2 (${where}): pool rebuilds and a slow store do not delay the dispatch of tasks`, async () => {
    await using store = await openStore('memory')
    using meter = createMeter()
    const { observe, begin, check } = meter
    const jobs = slowed(store.backend.jobs, 500)
    await using servers = await startServers(store, count, {}, { observe, jobs })
    const { first, last } = servers
    const node = new FakeNode(first, { services: { nmt: 2_000 }, onTask: obliging })
    using _beats = beat([node], 1)
    await warmUp(first, last)
    begin()
    const pools = setInterval(() => {
      const requires = [{ label: 'size', gte: Math.random() }]
      void last.definePool({ name: 'large', requires })
    }, 20)
    try {
      await submitMany(last, 1_000)
      await until('all are done', () => first.counts().completed === 1_200, 30_000)
    } finally {
      clearInterval(pools)
    }
    assert.equal(node.tasks.length, 1_200)
    assert.ok(check().includes('definePool'))
  })

  test(`scenario 3 (${where}): heartbeats, dispatches and timed rebuilds of a large fleet do not delay each other`, async () => {
    await using store = await openStore('memory')
    using meter = createMeter()
    const { observe, begin, check } = meter
    await using servers = await startServers(store, count, { rebuildMs: 50 }, { observe })
    const { first, last, all } = servers
    const nodes = Array.from(
      { length: 2_000 },
      (_, index) =>
        new FakeNode(first, {
          nodeId: `n${index}`,
          services: { nmt: 1, [`s${index % 50}`]: 1 },
          labels: { zone: `z${index % 20}` },
          onTask: obliging,
        }),
    )
    await until('all are ready', () => first.counts().nodes === 2_000)
    using _beats = beat(nodes, 20)
    await warmUp(first, last)
    begin()
    for (let round = 0; round < 10; round += 1) {
      await submitMany(last, 200)
      await new Promise((resolve) => setTimeout(resolve, 30))
    }
    await until('all are done', () => first.counts().completed === 2_200, 30_000)
    await until('it was rebuilt', () => all[0]!.events.some(({ name }) => name === 'pools.rebuilt'))
    const kinds = check()
    assert.ok(kinds.includes('rebuild') && kinds.includes('rebuildSlice') && kinds.includes('heartbeat'))
  })
}
