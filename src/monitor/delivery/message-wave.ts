import { within } from '../../core/clock.ts'
import { digestParts } from '../../once/index.ts'
import type { Channel, OutboundReply, OutboundRequest, SendVerdict } from '../channels/channel.ts'
import type { NotificationRecord, SendingEnd } from '../monitor-store.ts'
import type { Limiter, SendSlot } from './channel-limiter.ts'
import { composeMessage } from './compose-message.ts'
import type { Candidate } from './digest.ts'
import { judgeTry, type SendingTally, type TryOutcome } from './sending-outcome.ts'

/** A notification with all that sending it needs. */
export interface Sendable extends Candidate {
  readonly record: NotificationRecord
  readonly channel: Channel
  readonly template: string | null
  readonly onAmbiguous: 'resend' | 'hold'
  readonly retryMs: number
  /** It may have arrived before. */
  readonly isRepeat: boolean
  /** It was begun by a sender that is gone. */
  readonly isAbandoned: boolean
}

/** Takes requests where they go, and says what came back. */
export interface Courier {
  send(request: OutboundRequest): Promise<OutboundReply>
  /** How long one may take; a later reply is ignored. */
  readonly sendMs: number
}

export interface PreparedMessage {
  readonly status: 'ready'
  readonly members: readonly Sendable[]
  readonly robot: number
  readonly requests: readonly OutboundRequest[]
  readonly slots: readonly SendSlot[]
  /** By then all of it has arrived, if it arrives. */
  readonly latestAt: number
  readonly digestId: string | null
}

export type Preparation =
  | PreparedMessage
  /** No robot may take `needed` requests now. */
  | { readonly status: 'waits'; readonly needed: number }
  /** It can never be sent. */
  | { readonly status: 'unfit'; readonly reason: string }

export interface PrepareParts {
  readonly limiter: Limiter
  readonly time: StoreTime
  /** How long a request may take. */
  readonly sendMs: number
  /** How long it may take to write down that it begins. */
  readonly writeMs: number
}

/**
 * Chooses a robot, composes, and notes the requests. A digest that would exceed the limit gets
 * smaller; those left out stay due.
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
      return { status: 'unfit', reason: 'the message could not be put into the form that the channel wants' }
    }
    const needed = requests.length
    if (needed === 0) return { status: 'unfit', reason: 'the channel made no message of it' }
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
      reason: `it would be ${needed} messages, more than the provider takes at once; shorten the state or the template`,
    }
  }
}

/**
 * By what is in it: a receiver that takes each id once must take one that says something else, and need not take the
 * same again.
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

/** Sends them all at once; answers how each notification's try ended. */
export async function sendMessages(
  wave: readonly PreparedMessage[],
  parts: WaveParts,
): Promise<readonly SendingEnd[]> {
  const outcomes = await Promise.all(wave.map((message) => sendMessage(message, parts)))
  restRobots(wave, outcomes, parts)
  return wave.flatMap(({ members, digestId }, index) =>
    members.map((member) => {
      const { end, counted } = judgeTry(
        { ...member, attempt: member.attempt + 1, digestId },
        outcomes[index]!,
      )
      const { type } = member.channel
      if (member.isAbandoned) parts.tally.add(type, 'ambiguous')
      for (const what of counted) parts.tally.add(type, what)
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
    const reason = `${part} of ${requests.length} parts were taken, then: ${outcome.reason}`
    return { kind: 'partly', reason, penaltyMs: penaltyOf(outcome) }
  }
  for (const [part, request] of requests.entries()) {
    const slot = slots[part]!
    // Later than was noted it must not arrive; the store took its time, or this process was stopped for a while.
    if (time.latest() + courier.sendMs > slot.at) {
      limiter.takeBack(robot, slot)
      return end(part, { kind: 'unbegun', reason: 'it was not begun in time and is sent later' })
    }
    const reply = await exchange(courier, request)
    if (reply.status === 0 && reply.sure === true) limiter.takeBack(robot, slot)
    else limiter.arrived(slot, time.latest())
    const verdict = judge(channel, reply)
    if (verdict.kind !== 'sent') return end(part, verdict)
  }
  return { kind: 'sent' }
}

/** Never throws, and never takes longer than it may. */
async function exchange(courier: Courier, request: OutboundRequest): Promise<OutboundReply> {
  const { sendMs } = courier
  const late = () => noReply(`no reply within ${sendMs} ms`)
  try {
    return (await within(sendMs, courier.send(request), late)) ?? noReply('the request came to nothing')
  } catch {
    return noReply('the request failed in an unforeseen way')
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
 * A robot whose provider asked for silence is left alone for as long. One through which nothing went rests for half the wait
 * that its messages have: others of a pool are chosen meanwhile, and a dead channel costs no sender's time.
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
 * The store's clock between two of its answers, in bounds: an answer was made after its question left and before it
 * came. What must not be too early is reckoned from the question, what must not be too late from the answer.
 */
export class StoreTime {
  readonly #clock: () => number
  readonly #now: number
  readonly #askedAt: number
  readonly #answeredAt: number

  constructor(now: number, askedAt: number, clock: () => number) {
    this.#clock = clock
    this.#now = now
    this.#askedAt = askedAt
    this.#answeredAt = clock()
  }

  /** It is at least this late. */
  earliest(): number {
    return Math.floor(this.#now + this.#clock() - this.#answeredAt)
  }

  /** It is at most this late. */
  latest(): number {
    return Math.ceil(this.#now + this.#clock() - this.#askedAt)
  }

  /** How long ago the answer came. */
  get ageMs(): number {
    return this.#clock() - this.#answeredAt
  }
}
