import { createHash } from 'node:crypto'
import type { ChannelLimits, Rate, Robot } from '../channels/channel.ts'

/**
 * How much may go through a channel's robots, and when. Each robot has a log of the instants at which requests reached
 * its provider, by the store's clock; a request may go when every window allows one more. The sender that holds the
 * channel stores the log with it, so all senders of a fleet share it.
 *
 * The log is never earlier than the truth. A request is noted before it is made, at the last moment it
 * can still arrive; once its reply is there, at the moment of the reply. So a sender that dies leaves a log that is
 * too late rather than too early, and in any window of `perMs` at most `messages` arrive:
 *
 *     noted ──▶ [ now … now + sendMs ] ──reply──▶ at the reply     (nothing left here: taken back)
 *
 * A robot that is punished, or through which nothing goes, rests until an instant.
 */
export class Limiter {
  readonly #windows: readonly Rate[]
  readonly #robots: readonly RobotLog[]
  readonly #keptMs: number

  constructor({ limits, robots, state, now }: LimiterParts) {
    this.#windows = [limits.rate, limits.burst].filter((rate) => rate !== null)
    this.#keptMs = Math.max(0, ...this.#windows.map(({ perMs }) => perMs))
    const kept = decodeState(state)
    this.#robots = robots.map((robot) => {
      const name = robotName(robot)
      const { sent, restsUntil } = kept.get(name) ?? { sent: [], restsUntil: 0 }
      return {
        name,
        // A clock that was set back must not close a robot for as long as it was ahead.
        slots: sent.map((at) => ({ at: Math.min(at, now + longestAheadMs) })),
        restsUntil: Math.min(restsUntil, now + longestRestMs),
      }
    })
  }

  /** How many requests may go now, through all robots together. */
  free(now: number): number {
    return this.#robots.reduce((sum, robot) => sum + this.#freeOf(robot, now), 0)
  }

  /** The robot through which `count` requests may go now: the one with the most left, the first of equals. */
  choose(now: number, count = 1): number | undefined {
    let best: number | undefined
    let most = count - 1
    for (const [index, robot] of this.#robots.entries()) {
      const free = this.#freeOf(robot, now)
      // Without a limit all have the same: then they take turns by their requests in flight.
      if (free > most || (free === most && best !== undefined && this.#isLighter(robot, best))) {
        best = index
        most = free
      }
    }
    return best
  }

  /** The most requests that could ever go at once through one robot. */
  get capacity(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...this.#windows.map(({ messages }) => messages))
  }

  freeOf(robot: number, now: number): number {
    return this.#freeOf(this.#robots[robot]!, now)
  }

  /** When `count` requests may go through some robot: now, or later. */
  nextAt(now: number, count = 1): number {
    const instants = this.#robots.map((robot) => {
      const free = this.#windows.map(({ messages, perMs }) => {
        const latest = robot.slots.map(({ at }) => at).sort((a, b) => b - a)
        const inTheWay = latest[messages - Math.min(count, messages)]
        return inTheWay === undefined ? now : inTheWay + perMs + 1
      })
      return Math.max(now, robot.restsUntil, ...free)
    })
    return Math.min(...instants)
  }

  /** Notes a request that is about to be made and has arrived by `latestAt` if it arrives at all. */
  begin(robot: number, latestAt: number): SendSlot {
    const slot = { at: latestAt }
    this.#robots[robot]!.slots.push(slot)
    return slot
  }

  /** Its reply came: it had arrived by `at`. */
  arrived(slot: SendSlot, at: number): void {
    slot.at = Math.min(slot.at, at)
  }

  /** It cannot have arrived. */
  takeBack(robot: number, slot: SendSlot): void {
    const { slots } = this.#robots[robot]!
    const index = slots.indexOf(slot)
    if (index >= 0) slots.splice(index, 1)
  }

  /** Nothing goes through this robot before that instant. */
  rest(robot: number, until: number): void {
    const log = this.#robots[robot]!
    log.restsUntil = Math.max(log.restsUntil, until)
  }

  /** What is to be kept; null: nothing. */
  encode(now: number): string | null {
    const robots: Record<string, StoredLog> = {}
    for (const { name, slots, restsUntil } of this.#robots) {
      const sent = this.#keptMs === 0 ? [] : slots.map(({ at }) => at).filter((at) => this.#counts(at, now))
      if (sent.length > 0 || restsUntil > now)
        robots[name] = { sent, restsUntil: restsUntil > now ? restsUntil : 0 }
    }
    return Object.keys(robots).length === 0 ? null : JSON.stringify({ robots })
  }

  #counts(at: number, now: number, perMs = this.#keptMs): boolean {
    // One millisecond more than the window, for providers that count both its ends.
    return at + perMs >= now
  }

  #freeOf({ slots, restsUntil }: RobotLog, now: number): number {
    if (restsUntil > now) return 0
    return this.#windows.reduce((least, { messages, perMs }) => {
      const used = slots.filter(({ at }) => this.#counts(at, now, perMs)).length
      return Math.min(least, Math.max(0, messages - used))
    }, Number.POSITIVE_INFINITY)
  }

  #isLighter(robot: RobotLog, than: number): boolean {
    return robot.slots.length < this.#robots[than]!.slots.length
  }
}

export interface LimiterParts {
  readonly limits: Pick<ChannelLimits, 'rate' | 'burst'>
  readonly robots: readonly Robot[]
  /** What was kept last. */
  readonly state: string | null
  /** The store's clock. */
  readonly now: number
}

/** One request, and the last instant at which it may have arrived. */
export interface SendSlot {
  at: number
}

interface RobotLog {
  readonly name: string
  readonly slots: SendSlot[]
  restsUntil: number
}

interface StoredLog {
  readonly sent: readonly number[]
  readonly restsUntil: number
}

const longestRestMs = 86_400_000
/** No request is noted further ahead than this. */
const longestAheadMs = 120_000

/** By a hash: the address holds the robot's key. */
function robotName({ url }: Robot): string {
  return createHash('sha256').update(url).digest('hex').slice(0, 16)
}

/** What cannot be read is as nothing: it was ours to write, and a robot closed for ever would be worse. */
function decodeState(state: string | null): ReadonlyMap<string, StoredLog> {
  const kept = new Map<string, StoredLog>()
  if (state === null) return kept
  try {
    const { robots } = JSON.parse(state) as { robots: Record<string, StoredLog> }
    for (const [name, { sent, restsUntil }] of Object.entries(robots)) {
      kept.set(name, { sent: sent.filter(Number.isFinite), restsUntil: Number(restsUntil) || 0 })
    }
  } catch {
    // Read as far as it went.
  }
  return kept
}
