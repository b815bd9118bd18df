import { describeError } from '../../core/describe-error.ts'
import type { Duration } from '../../core/duration.ts'
import { SignalboxError } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import { callable, duration, whole, withDefaults } from '../../core/options.ts'
import { createJobs, type HandlerJob, type JobStore, type JobsNotifier } from '../../jobs/index.ts'
import type { Channel } from '../channels/channel.ts'
import type { MonitorStore } from '../monitor-store.ts'
import { notifyQueue } from '../notification-queue.ts'
import type { StoredChannels } from '../stored-channels.ts'
import { createRuleCache } from '../subscription-rules.ts'
import { type PumpParts, pumpChannel } from './channel-pump.ts'
import { composeTest } from './compose-message.ts'
import type { Outbound } from './outbound.ts'
import { type SendingCounts, SendingTally, type SendingTrouble } from './sending-outcome.ts'

/**
 * Sends the notifications of the monitor: a worker on a reserved queue. Any number of senders may run, in any number of
 * processes. One sender at a time holds a channel, and different channels do not wait for each other.
 *
 * A job says "check this channel". Its payload has no message: the notifications are in the store, and dead letters are
 * notifications, never jobs. So the only rule is that no job gets lost:
 *
 * - A job that finds its channel taken marks the channel as `wanted` and ends: the holder's job has not ended yet.
 * - A job that began before may be the one whose sender died while it held the channel. It ends only after it took the
 *   channel.
 */
export interface Sender extends AsyncDisposable {
  /** Whether it runs and made progress lately. */
  readonly ready: boolean
  /** By type of channel, since its creation. */
  counts(): Readonly<Record<string, Readonly<SendingCounts>>>
  /** Begins to send. */
  start(): Promise<void>
  /**
   * Begins no more messages, waits up to `graceMs` (10,000 by default) for those in flight, and writes how they ended.
   */
  stop(options?: { readonly graceMs?: number }): Promise<void>
}

export interface SenderParts {
  readonly store: MonitorStore
  readonly jobs: JobStore
  readonly notifier: JobsNotifier
  readonly outbound: Pick<Outbound, 'send'>
  /** Reads the channels of subscriptions. */
  readonly channels: StoredChannels
  /** Runs the job that decides again about one subject. */
  readonly reconcile: (payload: unknown) => Promise<unknown>
}

export interface SenderOptions {
  /** The number of channels that it sends to at once. @default 10 */
  readonly concurrency?: number | undefined
  /** The lease of a channel and of its job. @default 10_000 */
  readonly leaseMs?: Duration | undefined
  /** The pause after a failure, for subscriptions that do not set it. @default 5_000 */
  readonly retryMs?: Duration | undefined
  /** The provider's time for its reply; a little more than the time limit of `outbound`. @default 5_500 */
  readonly sendMs?: Duration | undefined
  /** The longest time that one channel may use a slot. @default 20_000 */
  readonly turnMs?: Duration | undefined
  /** The most notifications in a message. @default 100 */
  readonly maxDigest?: number | undefined
  /** How often to check for jobs without a wake-up. @default 1_000 */
  readonly pollMs?: Duration | undefined
  /** Called for every dead notification, and for every notification that waits for a key. @default nothing */
  readonly onTrouble?: ((trouble: SendingTrouble) => void) | undefined
}

/** So many that crashes do not use them up: a notification dies after its own tries, its job never. */
const maxAttempts = 1_000

const senderDefaults: Required<SenderOptions> = {
  concurrency: 10,
  leaseMs: 10_000,
  retryMs: 5_000,
  sendMs: 5_500,
  turnMs: 20_000,
  maxDigest: 100,
  pollMs: 1_000,
  onTrouble: undefined,
}

/** Creates a sender on this store. It does nothing until it is started. */
export function createSender(parts: SenderParts, options: SenderOptions = {}): Sender {
  const resolved = resolveSenderOptions(options)
  const { leaseMs, retryMs, sendMs, pollMs, onTrouble } = resolved
  const tally = new SendingTally()
  const jobs = createJobs({ store: parts.jobs, notifier: parts.notifier, reserved: true })
  const stopping = new AbortController()
  const pump: PumpParts = {
    store: parts.store,
    async comeBack(channel, { at, delayMs }) {
      const how = { queue: notifyQueue, delayMs, maxAttempts }
      // The unique key makes one job of the same request, even if several turns end with it.
      const { id, duplicate } = await jobs.add('send', { channel }, { ...how, uniqueKey: `${channel} ${at}` })
      if (!duplicate) return
      // A job that has begun may be the caller itself: after a clock was set back, it ran before its time.
      const state = (await jobs.find(id))?.state
      if (state !== 'ready' && state !== 'scheduled') await jobs.add('send', { channel }, how)
    },
    courier: { send: (request) => parts.outbound.send(request), sendMs },
    rules: createRuleCache(parts.store, parts.channels, { retryInMs: retryMs }),
    tally,
    onTrouble,
    options: resolved,
  }

  /** Tries failed work again soon, whatever the number of failures, because subscribers wait for it. */
  async function retrySoon(job: HandlerJob, work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
    } catch (error) {
      await job.nack({ error, retryInMs: Math.min(5_000, 100 * 2 ** Math.min(job.attempt, 10)) })
    }
  }

  async function send(job: HandlerJob, jobSignal: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([stopping.signal, jobSignal])
    const answer = await pumpChannel(pump, channelOf(job.payload), signal)
    const wasBegun = job.attempt > 1 || job.handBackCount > 0 || job.snoozeCount > 0
    if (answer === 'done' || (answer === 'busy' && !wasBegun)) return
    const error = `The channel is with another sender (${answer}).`
    await job.nack({ error, retryInMs: answer === 'lost' ? 100 : Math.ceil(leaseMs / 6) })
  }

  const worker = jobs.worker({
    queues: [notifyQueue],
    concurrency: resolved.concurrency,
    // A prefetched job would wait here behind a slow channel while another sender is idle.
    prefetch: 0,
    leaseMs,
    pollMs,
    handlers: {
      send: (job, { signal }) => retrySoon(job, () => send(job, signal)),
      reconcile: (job) => retrySoon(job, () => parts.reconcile(job.payload)),
    },
  })

  const stop: Sender['stop'] = async (stopOptions) => {
    stopping.abort(new SignalboxError('closed', 'The sender is stopping.'))
    await worker.stop(stopOptions)
    await jobs[Symbol.asyncDispose]()
  }
  return {
    get ready() {
      return worker.ready
    },
    counts: () => tally.counts(),
    start: () => worker.start(),
    stop,
    [Symbol.asyncDispose]: () => stop(),
  }
}

function resolveSenderOptions(options: SenderOptions) {
  const given = withDefaults('sender', options, senderDefaults)
  const sendMs = duration('sender.sendMs', given.sendMs, { min: 10, max: 60_000 })
  // The default lease is longer than a request.
  const leaseMs = options.leaseMs ?? Math.max(10_000, sendMs)
  return Object.freeze({
    concurrency: whole('sender.concurrency', given.concurrency, { min: 1, max: 1_000 }),
    leaseMs: duration('sender.leaseMs', leaseMs, { min: 100, max: 3_600_000 }),
    retryMs: duration('sender.retryMs', given.retryMs, { min: 1, max: 86_400_000 }),
    sendMs,
    turnMs: duration('sender.turnMs', given.turnMs, { min: 1, max: 3_600_000 }),
    maxDigest: whole('sender.maxDigest', given.maxDigest, { min: 2, max: 1_000 }),
    pollMs: given.pollMs,
    onTrouble: given.onTrouble && callable('sender.onTrouble', given.onTrouble),
  })
}

function channelOf(payload: unknown): string {
  const channel: unknown = (payload as { channel?: unknown } | null)?.channel
  if (typeof channel === 'string') return channel
  throw new SignalboxError('undecodable', 'A job of the notification queue names no channel.')
}

export interface TestSendParts {
  readonly outbound: Pick<Outbound, 'send'>
  readonly parseChannel: (config: unknown) => Channel
}

/** The result of a test. `reason` is the error, without secrets. */
export interface TestSendAnswer {
  readonly ok: boolean
  readonly reason: string | null
  /** The channel without secrets; null: the channel is unusable. */
  readonly shown: string | null
}

/**
 * Sends one message through each robot of a channel now, past all queues and limits, for the operator who sets it up.
 * The first robot that refuses the message ends the test.
 */
export async function sendTest(
  config: unknown,
  { outbound, parseChannel }: TestSendParts,
): Promise<TestSendAnswer> {
  let channel: Channel
  try {
    channel = parseChannel(config)
  } catch (error) {
    // The error names fields, never values.
    return { ok: false, reason: describeError(error).message, shown: null }
  }
  const { shown, robots } = channel
  for (const [index, robot] of robots.entries()) {
    const which = robots.length === 1 ? '' : `robot ${index + 1} of ${robots.length}: `
    for (const request of channel.compose(composeTest(createId(), Date.now()), robot, Date.now())) {
      const verdict = channel.judge(await outbound.send(request))
      if (verdict.kind !== 'sent') return { ok: false, reason: `${which}${verdict.reason}`, shown }
    }
  }
  return { ok: true, reason: null, shown }
}
