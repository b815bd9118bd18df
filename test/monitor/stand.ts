/** A monitor on a memory store whose clock is moved by hand, and a sender whom every provider answers at once. */
import assert from 'node:assert/strict'
import {
  createMonitor,
  type Monitor,
  type MonitorOptions,
  type MonitorStore,
  type Report,
  type ReportAnswer,
  type SubscribeOptions,
} from '../../src/monitor/index.ts'
import { OnceTally } from '../../src/once/index.ts'
import type { Backend } from '../../src/storage/backend.ts'
import { openMemory } from '../../src/storage/memory/index.ts'

export const place = { source: 'gym', timeSlot: '18:00-19:00' }
export const webhook = {
  type: 'webhook' as const,
  url: 'https://example.com/hook',
  secret: 'eight-or-more-characters',
}
export const minute = 60_000

export interface StandOptions extends MonitorOptions {
  /** Wraps what the monitor asks of its store. */
  readonly wrap?: (store: MonitorStore) => MonitorStore
}

export class Stand implements AsyncDisposable {
  readonly backend: Backend
  readonly monitor: Monitor
  readonly tally: OnceTally = new OnceTally()
  readonly #clock: { now: number }
  #tasks = 0

  constructor(backend: Backend, clock: { now: number }, { wrap, ...options }: StandOptions) {
    this.backend = backend
    this.#clock = clock
    const store = wrap ? wrap(backend.monitor) : backend.monitor
    const { guards, jobs, notifier } = backend
    this.monitor = createMonitor({ store, guards, jobs, notifier, tally: this.tally }, options)
  }

  get now(): number {
    return this.#clock.now
  }

  pass(ms: number): void {
    this.#clock.now += ms
  }

  /** Reports these venues' states, as a new task. */
  see(states: Readonly<Record<string, unknown>>, more: Partial<Report> = {}): Promise<ReportAnswer> {
    const venues = Object.entries(states).map(([venueId, state]) => ({ venueId, state }))
    const taskId = `task ${++this.#tasks}`
    return this.monitor.report({ ...place, taskId, observedAt: this.now, venues, ...more })
  }

  subscribe(options: Partial<SubscribeOptions> = {}): ReturnType<Monitor['subscribe']> {
    return this.monitor.subscribe({ name: 'front desk', channel: webhook, ...options })
  }

  /** Ends everything that is on its way; answers what was notified, as `venue from→to`. */
  async send(outcome: 'sent' | 'dead' = 'sent'): Promise<readonly string[]> {
    const { monitor } = this.backend
    const notified: string[] = []
    for (;;) {
      const [one] = await monitor.notifications({ status: 'pending', limit: 1 })
      if (!one) return notified
      const ref = { channel: one.channel, token: 'sender' }
      assert.ok((await monitor.take({ ...ref, leaseMs: minute })).taken)
      const { items } = (await monitor.due(ref, 1_000))!
      const ends = items.map(({ id }) => ({ id, outcome, error: null, digestId: null }))
      assert.ok(await monitor.proceed(ref, { leaseMs: minute, state: null, ends, begin: [] }))
      await monitor.letGo(ref)
      for (const { name, from, to, kind } of items)
        notified.push(`${name} ${shown(from)}→${shown(to)}${kind === 'change' ? '' : ` ${kind}`}`)
    }
  }

  /** Ends the first that is on its way. */
  async sendNext(outcome: 'sent' | 'dead'): Promise<void> {
    const { monitor } = this.backend
    const first = (await monitor.notifications({ status: 'pending', limit: 1_000 })).at(-1)!
    const ref = { channel: first.channel, token: 'sender' }
    assert.ok((await monitor.take({ ...ref, leaseMs: minute })).taken)
    const ends = [{ id: first.id, outcome, error: null, digestId: null }]
    assert.ok(await monitor.proceed(ref, { leaseMs: minute, state: null, ends, begin: [] }))
    await monitor.letGo(ref)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.monitor[Symbol.asyncDispose]()
    await this.backend.close()
  }
}

export async function openStand(options: StandOptions = {}): Promise<Stand> {
  const clock = { now: 1_700_000_000_000 }
  const backend = await openMemory({ namespace: 'test', migrate: true, now: () => clock.now })
  return new Stand(backend, clock, options)
}

function shown(state: string | null): string {
  const value: unknown = state === null ? 'nothing' : JSON.parse(state)
  return typeof value === 'string' ? value : JSON.stringify(value)
}
