import { within } from '../../core/clock.ts'
import { digestParts } from '../../once/index.ts'
import type { Channel, OutboundReply, OutboundRequest, SendVerdict } from '../channels/channel.ts'
import type { NotificationRecord, SendingEnd } from '../monitor-store.ts'
import type { Limiter, SendSlot } from './channel-limiter.ts'
import { composeMessage } from './compose-message.ts'
import type { Candidate } from './digest.ts'
import { judgeTry, type SendingTally, type TryOutcome } from './sending-outcome.ts'

/** A notification with everything that sending needs. */
export interface Sendable extends Candidate {
  readonly record: NotificationRecord
  readonly channel: Channel
  readonly template: string | null
  readonly onAmbiguous: 'resend' | 'hold'
  readonly retryMs: number
  /** The notification may have arrived before. */
  readonly isRepeat: boolean
  /** A sender that died had begun to send it. */
  readonly isAbandoned: boolean
}

/** Sends requests and returns the replies. */
export interface Courier {
  send(request: OutboundRequest): Promise<OutboundReply>
  /** The time limit of a request; a later reply is ignored. */
  readonly sendMs: number
}

export interface PreparedMessage {
  readonly status: 'ready'
  readonly members: readonly Sendable[]
  readonly robot: number
  readonly requests: readonly OutboundRequest[]
  readonly slots: readonly SendSlot[]
  /** The latest instant at which a part of the message can arrive. */
  readonly latestAt: number
  readonly digestId: string | null
}

export type Preparation =
  | PreparedMessage
  /** No robot may send `needed` requests now. */
  | { readonly status: 'waits'; readonly needed: number }
  /** The message can never be sent. */
  | { readonly status: 'unfit'; readonly reason: string }

export interface PrepareParts {
  readonly limiter: Limiter
  readonly time: StoreTime
  /** The time limit of a request. */
  readonly sendMs: number
  /** The time limit of the write that precedes it. */
  readonly writeMs: number
}

/**
 * Chooses a robot, composes the message, and records its requests in the limiter. A digest that would exceed the limit
 * gets smaller; the omitted notifications stay due.
 */
export function prepareMessage(
  all: readonly Sendable[],
  { limiter, time, sendMs, writeMs }: PrepareParts,
): Preparation {
  const now = time.earliest()
  for (let members = all; ; members = members.slice(0, Math.ceil(members.length / 2))) {
    const robot = limiter.choose(now)
    if (robot === undefined) return { status: 'waits', needed: 1 }
    const { channel } = members[0]!
    const digestId = digestIdOf(members)
    let requests: readonly OutboundRequest[]
    try {
      const id = digestId ?? members[0]!.id
      const message = composeMessage(
        id,
        members,
        members.some(({ isRepeat }) => isRepeat),
      )
      requests = channel.compose(message, channel.robots[robot]!, now)
    } catch {
      return { status: 'unfit', reason: 'the channel could not compose the message' }
    }
    const needed = requests.length
    if (needed === 0) return { status: 'unfit', reason: 'the channel composed no request' }
    if (needed <= limiter.freeOf(robot, now)) {
      const slots = requests.map((_, part) =>
        limiter.begin(robot, time.latest() + writeMs + sendMs * (part + 1)),
      )
      return {
        status: 'ready',
        members,
        robot,
        requests,
        slots,
        latestAt: slots.at(-1)?.at ?? now,
        digestId,
      }
    }
    if (members.length > 1) continue
    if (needed <= limiter.capacity) return { status: 'waits', needed }
    return {
      status: 'unfit',
      reason: `it needs ${needed} messages, more than the provider accepts at once; shorten the state or the template`,
    }
  }
}

/**
 * The id of a digest depends on its content. A receiver that accepts each id once accepts another digest, and ignores a
 * repeat.
 */
function digestIdOf(members: readonly Sendable[]): string | null {
  if (members.length === 1) return null
  return digestParts(['digest.1', ...members.map(({ id }) => id)]).slice(0, 32)
}

export interface WaveParts {
  readonly limiter: Limiter
  readonly time: StoreTime
  readonly courier: Courier
  readonly tally: SendingTally
}

/** Sends all messages at once. Returns how each notification's try ended. */
export async function sendMessages(
  wave: readonly PreparedMessage[],
  parts: WaveParts,
): Promise<readonly SendingEnd[]> {
  const outcomes = await Promise.all(wave.map((message) => sendMessage(message, parts)))
  restRobots(wave, outcomes, parts)
  return wave.flatMap(({ members, digestId }, index) =>
    members.map((member) => {
      const end = judgeTry({ ...member, attempt: member.attempt + 1, digestId }, outcomes[index]!)
      const { type } = member.channel
      if (member.isAbandoned) parts.tally.add(type, 'ambiguous')
      parts.tally.addEnd(type, end)
      if (end.outcome === 'sent' && digestId !== null) parts.tally.add(type, 'digested')
      return end
    }),
  )
}

async function sendMessage(
  message: PreparedMessage,
  { limiter, time, courier }: WaveParts,
): Promise<TryOutcome> {
  const { members, robot, requests, slots } = message
  const { channel } = members[0]!
  const end = (part: number, outcome: TryOutcome): TryOutcome => {
    for (const slot of slots.slice(part + 1)) limiter.takeBack(robot, slot)
    if (part === 0 || outcome.kind === 'sent') return outcome
    const reason = `the provider accepted ${part} of ${requests.length} parts, then: ${outcome.reason}`
    return { kind: 'partly', reason, penaltyMs: penaltyOf(outcome) }
  }
  for (const [part, request] of requests.entries()) {
    const slot = slots[part]!
    // The request could arrive after its recorded instant, because the store was slow or this process was frozen.
    if (time.latest() + courier.sendMs > slot.at) {
      limiter.takeBack(robot, slot)
      return end(part, { kind: 'unbegun', reason: 'it did not begin in time and is sent later' })
    }
    const reply = await exchange(courier, request)
    if (reply.status === 0 && reply.sure === true) limiter.takeBack(robot, slot)
    else limiter.arrived(slot, time.latest())
    const verdict = judge(channel, reply)
    if (verdict.kind !== 'sent') return end(part, verdict)
  }
  return { kind: 'sent' }
}

/** Never throws, and never takes longer than the time limit. */
async function exchange(courier: Courier, request: OutboundRequest): Promise<OutboundReply> {
  const { sendMs } = courier
  const late = () => noReply(`no reply within ${sendMs} ms`)
  try {
    return (await within(sendMs, courier.send(request), late)) ?? noReply('the request had no reply')
  } catch {
    return noReply('the request failed with an unexpected error')
  }
}

function noReply(problem: string): OutboundReply {
  return { status: 0, headers: {}, body: '', problem, sure: false }
}

function judge(channel: Channel, reply: OutboundReply): SendVerdict {
  try {
    return channel.judge(reply)
  } catch {
    return { kind: 'unknown', reason: 'the reply of the provider could not be read' }
  }
}

const shortestPenaltyMs = 1_000

/**
 * Lets robots rest. After a rate limit of the provider, a robot rests as long as the provider says. After only
 * failures, it rests for half the pause of its messages: meanwhile other robots are chosen, and a dead channel takes no
 * sender's time.
 */
function restRobots(
  wave: readonly PreparedMessage[],
  outcomes: readonly TryOutcome[],
  parts: WaveParts,
): void {
  const { limiter, time, tally } = parts
  const working = new Set(wave.filter((_, index) => isAlive(outcomes[index]!)).map(({ robot }) => robot))
  for (const [index, { robot, members }] of wave.entries()) {
    const outcome = outcomes[index]!
    const { channel, retryMs } = members[0]!
    const penaltyMs = penaltyOf(outcome)
    if (penaltyMs !== undefined) {
      limiter.rest(robot, time.latest() + Math.max(shortestPenaltyMs, penaltyMs))
      tally.add(channel.type, 'penalties')
    } else if (!working.has(robot) && outcome.kind !== 'unbegun') {
      limiter.rest(robot, time.latest() + Math.floor(retryMs / 2))
    }
  }
}

function penaltyOf(outcome: TryOutcome): number | undefined {
  return outcome.kind === 'retry' || outcome.kind === 'partly' ? outcome.penaltyMs : undefined
}

function isAlive({ kind }: TryOutcome): boolean {
  return kind === 'sent' || kind === 'refused'
}

/**
 * Bounds of the store's clock between two of its answers. The store answered after the request left and before the
 * answer arrived. So `latest` counts from the request, and `earliest` from the arrival of the answer.
 */
export class StoreTime {
  readonly #now: number
  readonly #askedAt: number
  readonly #answeredAt = performance.now()

  /** `askedAt` is the time of the request, by performance.now. */
  constructor(now: number, askedAt: number) {
    this.#now = now
    this.#askedAt = askedAt
  }

  /** The store's clock shows at least this. */
  earliest(): number {
    return Math.floor(this.#now + performance.now() - this.#answeredAt)
  }

  /** The store's clock shows at most this. */
  latest(): number {
    return Math.ceil(this.#now + performance.now() - this.#askedAt)
  }

  /** How long ago the answer came. */
  get ageMs(): number {
    return performance.now() - this.#answeredAt
  }
}
