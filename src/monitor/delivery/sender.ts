import { describeError } from '../../core/describe-error.ts'
import type { Duration } from '../../core/duration.ts'
import { SignalboxError } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import { callable, duration, onlyKeys, whole } from '../../core/options.ts'
import { createJobs, type HandlerJob, type JobStore, type JobsNotifier } from '../../jobs/index.ts'
import type { Channel } from '../channels/channel.ts'
import type { MonitorStore } from '../monitor-store.ts'
import { notifyQueue } from '../notification-queue.ts'
import type { StoredChannels } from '../stored-channels.ts'
import { createRuleCache } from '../subscription-rules.ts'
import { type PumpOptions, type PumpParts, pumpChannel, pumpDefaults } from './channel-pump.ts'
import { composeTest } from './compose-message.ts'
import type { Outbound } from './outbound.ts'
import { type SendingCounts, SendingTally, type SendingTrouble } from './sending-outcome.ts'

/**
 * Sends what the monitor decided: a worker on a reserved queue. Any number of them may run, in any number of
 * processes; a channel is in one sender's hands at a time, and different channels do not wait for each other.
 *
 * A job says "look at this channel". Its payload holds no message: the notifications are in the store, and dead letters
 * are notifications, never jobs. So a job must only not get lost:
 *
 * - A job that finds its channel taken leaves word there and ends: the job of the sender that has it has not ended yet.
 * - A job that was begun before may itself be the one whose sender died while it held the channel. It does not end
 *   before it had the channel.
 */
export interface Sender extends AsyncDisposable {
  /** It runs, and made progress lately. */
  readonly ready: boolean
  /** By type of channel, since it was made. */
  counts(): Readonly<Record<string, Readonly<SendingCounts>>>
  /** Begins to send. */
  start(): Promise<void>
  /** Begins no more messages, waits up to `graceMs` (10,000 by default) for those under way, writes how they ended. */
  stop(options?: { readonly graceMs?: number }): Promise<void>
}

export interface SenderParts {
  readonly store: MonitorStore
  readonly jobs: JobStore
  readonly notifier: JobsNotifier
  readonly outbound: Pick<Outbound, 'send'>
  /** Reads the channels of subscriptions. */
  readonly channels: StoredChannels
  /** Does the job of looking at one subject again. */
  readonly reconcile: (payload: unknown) => Promise<unknown>
}

export interface SenderOptions {
  /** How many channels are sent to at once. @default 10 */
  readonly concurrency?: number | undefined
  /** How long a channel, and the job for it, stay with a sender that gives no sign of life. @default 10_000 */
  readonly leaseMs?: Duration | undefined
  /** The wait after a failure, for subscriptions that say nothing. @default 5_000 */
  readonly retryMs?: Duration | undefined
  /** How long the provider has for its reply; a little more than the time that `outbound` allows. @default 5_500 */
  readonly sendMs?: Duration | undefined
  /** How long one channel may keep one of the places. @default 20_000 */
  readonly turnMs?: Duration | undefined
  /** How many notifications may share a message. @default 100 */
  readonly maxDigest?: number | undefined
  /** How often to look for jobs without a wake-up. @default 1_000 */
  readonly pollMs?: Duration | undefined
  /** Called for every notification that is given up, and for every one that waits for a key. @default nothing */
  readonly onTrouble?: ((trouble: SendingTrouble) => void) | undefined
}

/** Crashes must not use it up: what dies is a notification, after its own tries. */
const maxAttempts = 1_000

const optionKeys = [
  'concurrency',
  'leaseMs',
  'retryMs',
  'sendMs',
  'turnMs',
  'maxDigest',
  'pollMs',
  'onTrouble',
]

/** A sender on this store. It does nothing until it is started. */
export function createSender(parts: SenderParts, options: SenderOptions = {}): Sender {
  onlyKeys('sender', options, optionKeys)
  const { concurrency = 10, pollMs = 1_000, sendMs = 5_500 } = options
  const sendSpan = duration('sender.sendMs', sendMs, { min: 10, max: 60_000 })
  const pumpOptions = resolvePumpOptions(options, sendSpan)
  const tally = new SendingTally()
  const jobs = createJobs({ store: parts.jobs, notifier: parts.notifier, reserved: true })
  const stopping = new AbortController()
  const pump: PumpParts = {
    store: parts.store,
    async comeBack(channel, { at, delayMs }) {
      const how = { queue: notifyQueue, delayMs, maxAttempts }
      // The same visit is asked for once, however many turns end with it.
      const { id, duplicate } = await jobs.add('send', { channel }, { ...how, uniqueKey: `${channel} ${at}` })
      if (!duplicate) return
      // One that has begun may be the very one that asks: after a clock was set back, it came before its time.
      const state = (await jobs.find(id))?.state
      if (state !== 'ready' && state !== 'scheduled') await jobs.add('send', { channel }, how)
    },
    courier: { send: (request) => parts.outbound.send(request), sendMs: sendSpan },
    rules: createRuleCache(parts.store, parts.channels, { retryInMs: pumpOptions.retryMs }),
    tally,
    onTrouble: options.onTrouble && callable('sender.onTrouble', options.onTrouble),
    options: pumpOptions,
  }

  /** What goes wrong is tried again soon, however often it went wrong before: people wait for it. */
  async function soon(job: HandlerJob, work: () => Promise<unknown>): Promise<void> {
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
    await job.nack({ error, retryInMs: answer === 'lost' ? 100 : Math.ceil(pumpOptions.leaseMs / 6) })
  }

  const worker = jobs.worker({
    queues: [notifyQueue],
    concurrency: whole('sender.concurrency', concurrency, { min: 1, max: 1_000 }),
    // A job held ready here would wait behind a slow channel while another sender is idle.
    prefetch: 0,
    leaseMs: pumpOptions.leaseMs,
    pollMs,
    handlers: {
      send: (job, { signal }) => soon(job, () => send(job, signal)),
      reconcile: (job) => soon(job, () => parts.reconcile(job.payload)),
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

function resolvePumpOptions(options: SenderOptions, sendMs: number): PumpOptions {
  const { leaseMs, retryMs, turnMs, batch } = pumpDefaults
  return Object.freeze({
    leaseMs: duration('sender.leaseMs', options.leaseMs ?? Math.max(leaseMs, sendMs), {
      min: 100,
      max: 3_600_000,
    }),
    retryMs: duration('sender.retryMs', options.retryMs ?? retryMs, { min: 1, max: 86_400_000 }),
    turnMs: duration('sender.turnMs', options.turnMs ?? turnMs, { min: 1, max: 3_600_000 }),
    batch: whole('sender.maxDigest', options.maxDigest ?? batch, { min: 2, max: 1_000 }),
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
  /** The time that signatures are made with. @default Date.now */
  readonly now?: () => number
}

/** How a test went; `reason` says what is wrong, without secrets. */
export interface TestSendAnswer {
  readonly ok: boolean
  readonly reason: string | null
  /** The channel as it may be shown; null: it cannot be used at all. */
  readonly shown: string | null
}

/**
 * Sends one message through each robot of a channel now, past all queues and limits: for the person who sets it up and
 * looks at the group. The first robot that does not take it ends the test.
 */
export async function sendTest(
  config: unknown,
  { outbound, parseChannel, now = Date.now }: TestSendParts,
): Promise<TestSendAnswer> {
  let channel: Channel
  try {
    channel = parseChannel(config)
  } catch (error) {
    // Its complaints name fields, never values.
    return { ok: false, reason: describeError(error).message, shown: null }
  }
  const { shown, robots } = channel
  for (const [index, robot] of robots.entries()) {
    const which = robots.length === 1 ? '' : `robot ${index + 1} of ${robots.length}: `
    for (const request of channel.compose(composeTest(createId(), now()), robot, now())) {
      const verdict = channel.judge(await outbound.send(request))
      if (verdict.kind !== 'sent') return { ok: false, reason: `${which}${verdict.reason}`, shown }
    }
  }
  return { ok: true, reason: null, shown }
}
