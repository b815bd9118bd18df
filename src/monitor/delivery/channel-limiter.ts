import { createHash } from 'node:crypto'
import type { ChannelLimits, Rate, Robot } from '../channels/channel.ts'

/**
 * Limits the requests through a channel's robots. Each robot has a log of the instants at which requests reached its
 * provider, by the store's clock. A request is allowed when every window has space for one more. The sender that holds
 * the channel stores the log with it, so all senders of a fleet share the log.
 *
 * The log is never earlier than the truth. Before a request is sent, it is recorded at the latest instant at which it
 * can arrive; after its reply, at the instant of the reply. So the log of a dead sender is too late rather than too
 * early, and in any window of `perMs` at most `messages` arrive:
 *
 *     recorded ──▶ [ now … now + sendMs ] ──reply──▶ at the reply     (never sent: removed)
 *
 * A robot with a rate limit of its provider, or with only failures, rests until an instant.
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
        // If a clock was set back, a robot must not stay closed until the old time.
        slots: sent.map((at) => ({ at: Math.min(at, now + longestAheadMs) })),
        restsUntil: Math.min(restsUntil, now + longestRestMs),
      }
    })
  }

  /** The number of requests allowed now, through all robots together. */
  free(now: number): number {
    return this.#robots.reduce((sum, robot) => sum + this.#freeOf(robot, now), 0)
  }

  /** Chooses a robot that may send a request now: the one with the most left, the first of equals. */
  choose(now: number): number | undefined {
    let best: number | undefined
    let most = 0
    for (const [index, robot] of this.#robots.entries()) {
      const free = this.#freeOf(robot, now)
      // Without a limit all have the same number left: then choose the robot with the fewest requests.
      if (free > most || (free === most && best !== undefined && this.#isLighter(robot, best))) {
        best = index
        most = free
      }
    }
    return best
  }

  /** The most requests that one robot can ever send at once. */
  get capacity(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...this.#windows.map(({ messages }) => messages))
  }

  freeOf(robot: number, now: number): number {
    return this.#freeOf(this.#robots[robot]!, now)
  }

  /** The earliest instant at which some robot may send `count` requests. */
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

  /** Records a request before it is sent. If it arrives, it arrives by `latestAt`. */
  begin(robot: number, latestAt: number): SendSlot {
    const slot = { at: latestAt }
    this.#robots[robot]!.slots.push(slot)
    return slot
  }

  /** Records the reply: the request arrived by `at`. */
  arrived(slot: SendSlot, at: number): void {
    slot.at = Math.min(slot.at, at)
  }

  /** Removes a request that cannot have arrived. */
  takeBack(robot: number, slot: SendSlot): void {
    const { slots } = this.#robots[robot]!
    const index = slots.indexOf(slot)
    if (index >= 0) slots.splice(index, 1)
  }

  /** Closes this robot until that instant. */
  rest(robot: number, until: number): void {
    const log = this.#robots[robot]!
    log.restsUntil = Math.max(log.restsUntil, until)
  }

  /** The state to store; null: none. */
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
  /** The last stored state. */
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
/** No request is recorded further ahead than this. */
const longestAheadMs = 120_000

/** A hash, because the url has the robot's key. */
function robotName({ url }: Robot): string {
  return createHash('sha256').update(url).digest('hex').slice(0, 16)
}

/** Treats an unreadable state as empty: a robot that stays closed for ever would be worse than a message too many. */
function decodeState(state: string | null): ReadonlyMap<string, StoredLog> {
  const kept = new Map<string, StoredLog>()
  if (state === null) return kept
  try {
    const { robots } = JSON.parse(state) as { robots: Record<string, StoredLog> }
    for (const [name, { sent, restsUntil }] of Object.entries(robots)) {
      kept.set(name, { sent: sent.filter(Number.isFinite), restsUntil: Number(restsUntil) || 0 })
    }
  } catch {
    // Keep the robots that were read before the error.
  }
  return kept
}
