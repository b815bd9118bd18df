import type { ClaimRequest } from '../../../jobs/index.ts'
import { LimitPlan, type LimitSight, maxKeys, wholeQueue } from '../../sql/limit-plan.ts'
import type { Runner, Statement } from '../connection/connection.ts'
import type { Sender } from '../connection/sender.ts'
import type { Position } from '../jobs/cursor.ts'
import type { Space } from '../jobs/namespace-memory.ts'
import { byOrder, type InOrder } from './claim.ts'
import type { FrontRow, HeadRow, KeylessRow, LimitStatements, LockedRow, RuleRow } from './limit-claim.ts'
import { passedAllowed, spareCount } from './limit-fronts.ts'

/** What was seen before any key was looked at; the starts of keys are added to it as they are. */
export interface Sight extends LimitSight {
  readonly starts: Map<string, string>
}

/** A job that was locked for a claim. */
export interface LimitCandidate {
  /** Where its row is, for as long as it is locked. */
  readonly place: string
  readonly limitKey: string | null
}

export interface LimitChoice {
  /** Of which to take what there is room for, in the order of claims. */
  readonly candidates: readonly LimitCandidate[]
  /** The key behind which the next claim goes on; null: it begins at the first. */
  readonly place: string | null
  /** One look at the front of the line was enough, past few that must wait. */
  readonly isNear: boolean
}

export interface Look {
  readonly queue: string
  readonly request: ClaimRequest
  /** How many may be taken at most. */
  readonly room: number
  readonly sight: Sight
  readonly rule: RuleRow
}

/**
 * Finds and locks the jobs that a claim may take from. Mostly the front of the line is enough: whatever there is room for
 * in it goes before all that stands behind. Where it is not, because thousands stand there that must wait, the claim goes
 * from key to key. The first job of each key tells which keys can be among the best `room`: no others than the `room`
 * keys whose first jobs are. Locking a few too many costs little, since nobody else claims from the queue now.
 */
export class LimitCandidates {
  readonly #sender: Sender
  readonly #space: Space
  readonly #statements: LimitStatements

  constructor(sender: Sender, space: Space) {
    this.#sender = sender
    this.#space = space
    this.#statements = space.statements.limits
  }

  async lock(client: Runner, look: Look): Promise<LimitChoice> {
    const { fronts } = this.#space
    const { queue, room, sight, rule } = look
    if (sight.limits.perKey === null) {
      return {
        candidates: await this.#lock(client, look, 'first', room),
        place: rule.key_position,
        isNear: true,
      }
    }
    if (fronts.mayTry(queue)) {
      const front = await this.#front(client, look)
      if (front !== undefined) return { ...front, place: rule.key_position }
      fronts.fellShort(queue)
    }
    return this.#byKey(client, look)
  }

  /** What of the front of the line is enough for this claim, or all there is; undefined: there may be more behind it. */
  async #front(client: Runner, look: Look): Promise<Omit<LimitChoice, 'place'> | undefined> {
    const { queue, request, room, sight } = look
    const count = room + spareCount
    const window = count + windowCount
    const keys = new Set(sight.running.keys())
    let plan = new LimitPlan(sight)
    let taken: readonly LimitCandidate[] = []
    // Which keys are full, or will be, it learns as it meets them; then it looks past those too.
    for (let [looks, fullCount] = [0, -1]; looks < frontLooks; looks++) {
      const full = [...keys].filter((key) => key !== wholeQueue && plan.roomOf(key) < 1)
      if (full.length === fullCount) break
      fullCount = full.length
      const values = [queue, request.kinds, count, window, full, countsStarts(sight)]
      const [row] = await this.#send<FrontRow>(client, this.#statements.front, values)
      const { places, limit_keys: limitKeys, starts, passed, seen } = row!
      for (const [key, kept] of Object.entries(starts ?? {})) sight.starts.set(key, kept)
      // What could be taken before goes before what is found past it.
      const known = new Set(taken.map(({ place }) => place))
      const found = (places ?? []).map((place, nr) => ({ place, limitKey: limitKeys![nr]! }))
      plan = new LimitPlan(sight)
      taken = plan.take([...taken, ...found.filter(({ place }) => !known.has(place))], room)
      if (taken.length === room || (seen !== null && seen < window)) {
        const passedCount = (seen ?? passed!) - found.length
        this.#space.fronts.passed(queue, passedCount)
        return { candidates: taken, isNear: looks === 0 && passedCount <= passedAllowed }
      }
      for (const { limitKey } of found) if (limitKey !== null) keys.add(limitKey)
    }
    return undefined
  }

  async #byKey(client: Runner, look: Look): Promise<LimitChoice> {
    const [{ heads, place }, ids] = await Promise.all([
      this.#heads(client, look),
      this.#keyless(client, look),
    ])
    this.#space.fronts.saw(look.queue, heads.length)
    const { keys, wanted } = this.#choose(heads, look)
    const locked = await Promise.all([
      keys.length > 0 ? this.#lock(client, look, 'ofKeys', keys, wanted, look.room) : [],
      ids.length > 0 ? this.#lock(client, look, 'ofIds', ids) : [],
    ])
    return { candidates: locked.flat().sort(byOrder), place, isNear: false }
  }

  async #lock(
    client: Runner,
    { queue, request }: Look,
    statement: 'first' | 'ofKeys' | 'ofIds',
    ...values: unknown[]
  ): Promise<readonly (LimitCandidate & InOrder)[]> {
    const rows = await this.#send<LockedRow>(client, this.#statements[statement], [
      queue,
      request.kinds,
      ...values,
    ])
    return rows.map(({ place, id, limit_key: limitKey, priority, run_at: runAt }) => ({
      place,
      id,
      limitKey,
      priority,
      runAt: Number(runAt),
    }))
  }

  /** The keys with room, of which so many jobs may be among those taken. */
  #choose(
    heads: readonly HeadRow[],
    { request, room, sight }: Look,
  ): { readonly keys: readonly string[]; readonly wanted: readonly number[] } {
    const plan = new LimitPlan(sight)
    const open = heads
      .map((row) => ({ ...row, key: row.limit_key, runAt: Number(row.run_at) }))
      .filter(({ key }) => plan.roomOf(key) > 0)
      .sort(byOrder)
    const [keys, wanted]: [string[], number[]] = [[], []]
    // Behind so many first jobs of the kinds asked for no other can be among the best. One of another kind is none of
    // those, but the rest of its key comes later than it.
    let ahead = 0
    for (const { key, kind } of open) {
      if (ahead === room) break
      keys.push(key)
      wanted.push(Math.min(plan.roomOf(key), room - ahead))
      if (request.kinds === null || request.kinds.includes(kind)) ahead++
    }
    return { keys, wanted }
  }

  /** The first jobs of up to `maxKeys` keys, from the remembered one on and round. */
  async #heads(
    client: Runner,
    { queue, sight, rule }: Look,
  ): Promise<{ readonly heads: readonly HeadRow[]; readonly place: string | null }> {
    const scan = (after: string, upTo: string | null, count: number) =>
      this.#send<HeadRow>(client, this.#statements.heads, [queue, after, upTo, count, countsStarts(sight)])
    const from = rule.key_position
    // One more than is looked at tells whether there are more.
    const found = [...(await scan(from ?? '', null, maxKeys + 1))]
    if (from !== null && found.length <= maxKeys) {
      found.push(...(await scan('', from, maxKeys + 1 - found.length)))
    }
    const heads = found.slice(0, maxKeys)
    for (const { limit_key: key, starts } of heads) if (starts !== null) sight.starts.set(key, starts)
    return { heads, place: found.length > maxKeys ? heads.at(-1)!.limit_key : null }
  }

  /** Jobs without a key, from the first there is: some more than can be taken, for others may hold some. */
  async #keyless(client: Runner, { queue, request, room }: Look): Promise<readonly string[]> {
    const { kinds } = request
    const { keyless } = this.#space
    const began = performance.now()
    let place: Position = keyless.from(queue, kinds)
    let [walked, isEnd] = [0, false]
    let ids: readonly string[] = []
    for (const window of windows) {
      const [row] = await this.#send<KeylessRow>(client, this.#statements.keyless, [
        queue,
        kinds,
        ...[place.rank, place.runAt, place.id],
        window,
        room + spareCount,
      ])
      ids = row!.ids
      walked += row!.seen
      if (row!.id !== null) place = { rank: row!.rank!, runAt: row!.run_at!, id: row!.id }
      isEnd = row!.seen < window || ids.length > 0
      if (isEnd) break
    }
    if (walked > windows[0]!)
      keyless.passed(queue, kinds, { place, tookMs: performance.now() - began, isEnd })
    return ids
  }

  async #send<Row extends Record<string, unknown>>(
    client: Runner,
    statement: Statement,
    values: unknown[],
  ): Promise<readonly Row[]> {
    const { rows } = await this.#sender.send<Row>(client, statement, [this.#space.namespace, ...values])
    return rows
  }
}

/** How much of the line is looked at besides: less work than to go from key to key. */
const windowCount = 5_000
const frontLooks = 3

/** How far a claim walks to the first job without a key: a little at first, for mostly it is in front, or few stand there. */
const windows = [500, 2_500, 7_000, 10_000]

/** Whether it matters how many of a key started lately. */
function countsStarts({ limits }: Sight): boolean {
  return (limits.perKey?.rate ?? null) !== null
}
