/**
 * One node, a thousand dispatches at once, heartbeats, pools that are built anew, and a store each of whose answers takes
 * half a second: the longest that anything waited before it had its turn with the registry. For Signalbox that is the
 * wait in the mailbox, of everything but the rebuild's own slices, which give way by design; for the others the wait for
 * the lock. What the host itself took is measured beside it and left out of the first figure.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'signalbox'
import { createDispatch, type NodeLink } from '../../../src/dispatch/index.ts'
import { within } from '../../../test/support/deadline.ts'
import type { Contestant, Figures, Trial } from '../../case.ts'
import { atMost, printed } from '../../goal.ts'
import { LockedRegistry } from './registry/locked-registry.ts'
import { memberOf } from './registry/population.ts'
import { slowStore } from './slow-store.ts'
import { HostStalls } from './stalls.ts'

const dispatchCount = 1_000
const storeMs = 500
const heartbeatMs = 10
const rebuildMs = 100
const waitMs = 60_000

interface Wait {
  readonly from: number
  readonly to: number
}

const signalbox: Contestant = async ({ quick }) => {
  const waits: Wait[] = []
  let longestMs = 0
  let isWarm = false
  const observe = (kind: string, ms: number, holdMs: number): void => {
    if (!isWarm || kind === 'rebuildSlice') return
    longestMs = Math.max(longestMs, ms)
    const to = performance.now() - holdMs
    if (ms > 0.5) waits.push({ from: to - ms, to })
  }
  await using box = await open('memory:')
  const { jobs, logs, cluster, guards, notifier } = box.backend
  const latencyMs = () => (isWarm ? storeMs : 0)
  const slow = { jobs: slowStore(jobs, latencyMs), cluster: slowStore(cluster, latencyMs) }
  await using dispatch = createDispatch({ ...slow, logs, guards, notifier, observe }, { rebuildMs })
  dispatch.start()
  const ends = new Countdown()
  const node = connect(dispatch.connections, () => ends.one())
  const burst = async (): Promise<void> => {
    const over = ends.from(dispatchCount)
    await Promise.all(
      Array.from({ length: dispatchCount }, () => dispatch.submit({ service: 'asr', payload: null })),
    )
    await within(waitMs, 'the end of all tasks', over)
  }
  using beating = every(heartbeatMs, async () => node.beat())
  // A server that has run for a while is asked about, not one whose code is still being compiled.
  for (let warming = 0; warming < 5; warming++) await burst()
  isWarm = true
  using stalls = new HostStalls()
  for (let count = burstsOf(quick); count > 0; count--) await burst()
  beating.stop()
  return { ...beyond(waits, stalls), longestMs }
}

function locked(underLock: boolean): Contestant {
  return async ({ quick }) => {
    const ask = () => sleep(storeMs)
    const registry = new LockedRegistry([memberOf(0)], { ask, underLock, slots: dispatchCount })
    const waits: Wait[] = []
    registry.lock.observe((from, to) => {
      if (to - from > 0.5) waits.push({ from, to })
    })
    using stalls = new HostStalls()
    using beating = every(heartbeatMs, () => registry.heartbeat('node-0', 0.5))
    using rebuilding = every(rebuildMs, () => registry.rebuild())
    for (let burst = 0; burst < burstsOf(quick); burst++) {
      const bursting = Array.from({ length: dispatchCount }, async () => {
        const nodeId = await registry.dispatch({ service: 'asr', language: 'l0' })
        await registry.release(nodeId, 'asr')
      })
      await within(waitMs, 'the end of all tasks', Promise.all(bursting))
    }
    beating.stop()
    rebuilding.stop()
    return { ...beyond(waits, stalls), longestMs: registry.lock.longestMs }
  }
}

function burstsOf(quick: boolean): number {
  return quick ? 1 : 3
}

function beyond(waits: readonly Wait[], stalls: HostStalls): Figures {
  const own = waits.map(({ from, to }) => to - from - stalls.within(from, to))
  return { beyondMs: Math.max(0, ...own), stallMs: stalls.longestMs }
}

/** Resolves after `count` calls. */
class Countdown {
  #left = 0
  #resolve = () => undefined as void

  from(count: number): Promise<void> {
    this.#left = count
    return new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  one(): void {
    if (--this.#left === 0) this.#resolve()
  }
}

interface Beating {
  beat(): void
}

/** A node that does each task at once. */
function connect(connections: ReturnType<typeof createDispatch>['connections'], ended: () => void): Beating {
  const running = new Set<string>()
  let assigned = 0
  const link: NodeLink = {
    send(frame) {
      if (frame.type === 'task.settled') ended()
      if (frame.type !== 'task.assign') return true
      const { taskId, attempt } = frame
      assigned++
      running.add(taskId)
      setImmediate(() => {
        session.receive({ type: 'task.accept', taskId, attempt })
        session.receive({ type: 'task.result', taskId, attempt, output: null })
        running.delete(taskId)
      })
      return true
    },
    close: () => undefined,
  }
  const session = connections.connect(
    {
      ...{ type: 'hello', nodeId: 'node-0', instanceId: 'node-0-1', labels: {}, running: null, protocol: 1 },
      services: [{ name: 'asr', slots: dispatchCount, tags: {} }],
    },
    link,
  )
  return {
    beat() {
      const load = { cpu: 0.5, gpu: 0.5, memory: 0.5 }
      session.receive({ type: 'heartbeat', load, running: [...running], countedSeq: assigned })
    },
  }
}

interface Repeating extends Disposable {
  stop(): void
}

/** Repeatedly, one at a time: a node sends nothing new while its last frame is being handled. */
function every(ms: number, work: () => Promise<void>): Repeating {
  let isBusy = false
  const timer = setInterval(async () => {
    if (isBusy) return
    isBusy = true
    await work()
    isBusy = false
  }, ms)
  const stop = () => clearInterval(timer)
  return { stop, [Symbol.dispose]: stop }
}

const lockPeers = ['rw lock, store under it', 'rw lock, store outside'] as const
const each = { better: 'lower', peers: lockPeers } as const

export const oneNodeTrial: Trial = {
  name: 'one-node',
  contestants: {
    signalbox,
    [lockPeers[0]]: locked(true),
    [lockPeers[1]]: locked(false),
  },
  cases: [
    {
      ...each,
      ...{ name: 'one-node-wait', unit: 'ms longest, the host’s stalls aside', figure: 'beyondMs' },
      goal: atMost(10),
    },
    {
      ...each,
      ...{ name: 'one-node-wait-whole', unit: 'ms longest', figure: 'longestMs', goal: printed },
      constants: { 'a server with one lock': '1000 to 4000' },
    },
    { ...each, name: 'one-node-host-stall', unit: 'ms longest', figure: 'stallMs', goal: printed },
  ],
}
