/** A store, subscriptions and senders, for the stories about sending. */
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { createId } from '../../src/core/ids.ts'
import { type JobStore, queueTopic } from '../../src/jobs/index.ts'
import type { OutboundReply, OutboundRequest } from '../../src/monitor/channels/channel.ts'
import { parseChannel } from '../../src/monitor/channels/index.ts'
import { createOutbound } from '../../src/monitor/delivery/outbound.ts'
import { createSender, type Sender, type SenderOptions } from '../../src/monitor/delivery/sender.ts'
import type { MonitorStore, NewNotification, NotificationRecord } from '../../src/monitor/monitor-store.ts'
import { notifyJob, notifyQueue } from '../../src/monitor/notification-queue.ts'
import { StoredChannels } from '../../src/monitor/stored-channels.ts'
import type { Backend } from '../../src/storage/backend.ts'
import { openMemory } from '../../src/storage/memory/index.ts'
import { aBatch, aNotification, aSubject, hash } from '../conformance/monitor/making.ts'

export const allowPrivate: readonly string[] = ['127.0.0.0/8']

export interface Subscribed {
  readonly subscriptionId: string
  readonly channel: string
}

/** Several share a store; each has its own senders and connections. */
export interface World extends AsyncDisposable {
  readonly backend: Backend
  /** The store's clock, which can be put forward. */
  now(): number
  advance(ms: number): void
  subscribe(config: object, options?: object): Promise<Subscribed>
  /** A change of each of these venues, with the jobs that a report leaves; answers the notifications' ids. */
  notify(
    to: Subscribed,
    venues: readonly string[],
    change?: Partial<NewNotification>,
  ): Promise<readonly string[]>
  /** A sender that runs. */
  sender(options?: SenderOptions, replaced?: ReplacedParts): Promise<Sender>
  record(id: string): Promise<NotificationRecord>
  /** Waits until these have ended, one way or another. */
  ended(ids: readonly string[], timeoutMs?: number): Promise<readonly NotificationRecord[]>
  /** Waits until no sender has anything to do now; only then does putting the clock forward end no lease. */
  idle(): Promise<void>
  until(what: string, isSo: () => boolean | Promise<boolean>, timeoutMs?: number): Promise<void>
}

export interface ReplacedParts {
  readonly send?: (
    request: OutboundRequest,
    real: (request: OutboundRequest) => Promise<OutboundReply>,
  ) => Promise<OutboundReply>
  readonly store?: MonitorStore
  readonly jobs?: JobStore
  /** Called before the sender is stopped. */
  readonly onClose?: () => void
}

export async function createWorld({
  timeoutMs = 5_000,
  open,
}: {
  /** How long a robot has for its reply; less only where none is to come, because a machine that stands still is late too. */
  readonly timeoutMs?: number
  readonly open?: () => Promise<Backend>
} = {}): Promise<World> {
  let ahead = 0
  const now = () => Date.now() + ahead
  const backend = await (open?.() ?? openMemory({ namespace: 'default', migrate: true, now }))
  const outbound = createOutbound({ allowPrivate, timeoutMs })
  const senders: Sender[] = []
  const closing: (() => void)[] = []
  const { monitor } = backend

  const world: World = {
    backend,
    now,
    advance(ms) {
      ahead += ms
    },
    async subscribe(config, options = {}) {
      const subscriptionId = createId()
      const channel = JSON.stringify(config)
      const chosen = JSON.stringify(options)
      await monitor.subscribe({ id: subscriptionId, name: 'desk', match: '{}', channel, options: chosen })
      return { subscriptionId, channel: parseChannel(config, { allowPrivate }).key }
    },
    async notify(to, venues, change = {}) {
      const notifications = venues.map((venue) =>
        aNotification({ ...aSubject(venue), ...to, stateHash: hash(createId()), ...change, id: createId() }),
      )
      const reservations = notifications.map(({ id, subject, subscriptionId, stateHash }) => {
        return { notificationId: id, subject, subscriptionId, stateHash }
      })
      const jobs = [notifyJob('send', { channel: to.channel }, { delayMs: 0 })]
      for (;;) {
        const { revision } = await monitor.known({ subjects: [], throttles: [] })
        const answer = await monitor.write(aBatch({ revision, reservations, notifications, jobs }))
        if (answer.status === 'written') break
      }
      backend.notifier.wake(queueTopic(notifyQueue))
      return notifications.map(({ id }) => id)
    },
    async sender(options = {}, { send, store = monitor, jobs = backend.jobs, onClose } = {}) {
      const real = (request: OutboundRequest) => outbound.send(request)
      const sender = createSender(
        {
          store,
          jobs,
          notifier: backend.notifier,
          outbound: { send: send === undefined ? real : (request) => send(request, real) },
          channels: new StoredChannels({
            namespace: 'default',
            keys: undefined,
            parse: (config) => parseChannel(config, { allowPrivate }),
          }),
          reconcile: async () => undefined,
        },
        { pollMs: 20, retryMs: 40, sendMs: timeoutMs + 100, ...options },
      )
      senders.push(sender)
      if (onClose) closing.push(onClose)
      await sender.start()
      return sender
    },
    async record(id) {
      const record = await monitor.notification(id)
      assert.ok(record, `notification ${id} is there`)
      return record
    },
    async ended(ids, timeoutMs) {
      const ends = async () => Promise.all(ids.map((id) => world.record(id)))
      const isOpen = ({ status }: NotificationRecord) => status === 'pending' || status === 'sending'
      await world.until('all have ended', async () => !(await ends()).some(isOpen), timeoutMs)
      return ends()
    },
    async idle() {
      await world.until('the senders have nothing to do', async () => {
        const [line] = (await backend.jobs.stats()).filter(({ queue }) => queue === notifyQueue)
        return line === undefined || line.ready + line.running === 0
      })
    },
    async until(what, isSo, timeoutMs = 10_000) {
      const deadline = performance.now() + timeoutMs
      while (!(await isSo())) {
        assert.ok(performance.now() < deadline, `${what} within ${timeoutMs} ms`)
        await pause(5)
      }
    },
    async [Symbol.asyncDispose]() {
      for (const close of closing) close()
      await Promise.all(senders.map((sender) => sender.stop({ graceMs: 2_000 })))
      await outbound.close()
      await backend.close()
    },
  }
  return world
}

/** Over several senders. */
export function sum(
  senders: readonly Sender[],
  type: string,
  what: 'sent' | 'ambiguous' | 'penalties',
): number {
  return senders.reduce((total, sender) => total + (sender.counts()[type]?.[what] ?? 0), 0)
}
