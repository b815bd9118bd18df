import type { ClaimedRecord, ClaimRequest, QueueLimits } from '../../../jobs/index.ts'
import { decodeLimits, LimitPlan, type LimitSight, maxKeys, wholeQueue } from '../../sql/limit-plan.ts'
import { createNonce, expiredError } from '../../token.ts'
import { sqlState } from '../connection/failures.ts'
import type { Sender } from '../connection/sender.ts'
import type { Runner } from '../connection/statement.ts'
import { byOrder, type ClaimedRow, decodeClaimedRow, type InOrder } from './hand-out.ts'
import {
  type CountRow,
  type HeadRow,
  type LimitStatements,
  type LockedRow,
  limitStatements,
  type RuleRow,
} from './limit-statements.ts'
import { type PreparedRow, reclaimStatements } from './reclaim.ts'
import { runIn, type Scope } from './space.ts'

/**
 * Claims from queues with limits. It is a transaction for each queue, and the claim that has the queue's row is alone in it:
 *
 *     lock the row ──▶ take back, make ready ──▶ count what runs and has started ──▶ lock candidates ──▶ take what fits
 *
 * The candidates are the first ready jobs. Only when jobs that must wait fill the front does the claim go from key to key. All up to
 * the front is one trip, and so is the end.
 *
 * A queue whose row another transaction keeps for half a second gives nothing this time. The claim waits for nothing but that row:
 * it passes over jobs that others hold.
 */
export class LimitClaimer {
  readonly #scope: Scope
  readonly #sender: Sender
  readonly #statements: LimitStatements

  constructor(scope: Scope) {
    this.#scope = scope
    this.#sender = scope.sender
    this.#statements = limitStatements(scope.schemaName)
  }

  /** Claims up to `limit` jobs of these queues, first of the queue whose first job is first. */
  async claim(
    request: ClaimRequest,
    limited: readonly string[],
    limit: number,
  ): Promise<readonly ClaimedRecord[]> {
    const queues = limited.length === 1 ? limited : await this.#listReady(limited)
    if (this.#sender.isOneTransaction) await this.#lockInOrder(queues)
    const claimed: ClaimedRecord[] = []
    for (const queue of queues) {
      if (claimed.length >= limit) break
      try {
        claimed.push(...(await this.#claimFrom(queue, request, limit - claimed.length)))
      } catch (error) {
        // What was taken before must be answered.
        if (claimed.length === 0 || this.#sender.isOneTransaction) throw error
        break
      }
    }
    return claimed
  }

  /** Makes ready what fell due or ran out, and lists the queues with ready jobs in the order of their first ones. */
  async #listReady(limited: readonly string[]): Promise<readonly string[]> {
    const { prepare } = reclaimStatements(this.#scope.schemaName)
    await runIn(this.#scope, prepare, limited, expiredError)
    const rows = await runIn<{ queue: string }>(this.#scope, this.#statements.ready, limited)
    return rows.map(({ queue }) => queue)
  }

  /** Where the rows stay locked, every claim locks them in one order, so that two claims never wait in a ring. */
  async #lockInOrder(queues: readonly string[]): Promise<void> {
    if (queues.length < 2) return
    for (const queue of queues.toSorted()) {
      await runIn(this.#scope, this.#statements.rule, queue)
    }
  }

  async #claimFrom(queue: string, request: ClaimRequest, limit: number): Promise<readonly ClaimedRecord[]> {
    const take = async () => {
      try {
        const attempt = await this.#sender.allOrNothingWaiting(
          (client, keep) => this.#attempt(client, keep, { queue, request, limit }),
          () => true,
        )
        return attempt
      } catch (error) {
        // Another transaction has the row.
        const { cause } = error as { readonly cause?: unknown }
        if ((sqlState(error) ?? sqlState(cause)) === '55P03') return []
        throw error
      }
    }
    // In one transaction it has its connection, and may have the row: the claim whose turn it is would wait for that row.
    if (this.#sender.isOneTransaction) return take()
    return (await this.#scope.limited.inTurn(queue, waitMs, take)) ?? []
  }

  async #attempt(
    client: Runner,
    keep: () => void,
    { queue, request, limit }: Ask,
  ): Promise<readonly ClaimedRecord[]> {
    const { namespace, schemaName, limited, positions } = this.#scope
    const { prepare } = reclaimStatements(schemaName)
    const given = [namespace, queue]
    const { kinds, workerId, leaseMs } = request
    const isKnown = limited.has(queue)
    // Where keys count, some more than can be taken: jobs that must wait are among them.
    const frontCount = limit + spareCount
    const [ruled, prepared, counted, inFront] = await Promise.all([
      this.#sender.send<RuleRow>(client, this.#statements.rule, given),
      this.#sender.send<PreparedRow>(client, prepare, [namespace, [queue], expiredError]),
      this.#sender.send<CountRow>(client, this.#statements.count, given),
      this.#sender.send<LockedRow>(client, this.#statements.front, [...given, kinds, frontCount, true]),
    ])
    if (prepared.rows[0]!.moved) this.#sender.onCommit(() => positions.forget())
    const [rule] = ruled.rows
    if (isKnown !== (rule !== undefined)) limited.note(queue, rule !== undefined)
    if (rule === undefined) return []
    const { running, starts, now } = counted.rows[0]!
    const sight: Sight = {
      now: Number(now),
      limits: decodeLimits(rule.limits) ?? noLimits,
      running: new Map(Object.entries(running ?? {})),
      starts: new Map(starts === null ? [] : [[wholeQueue, starts]]),
    }
    const room = Math.min(new LimitPlan(sight).room, limit)
    if (room < 1) return []

    const front = toCandidates(inFront.rows, sight)
    const { candidates, position } = await this.#choose(client, {
      ...{ queue, request, room, sight, rule, front },
      isAll: inFront.rows.length < frontCount,
    })
    const plan = new LimitPlan(sight)
    const taken = plan.take(candidates, room)
    const writing: Promise<unknown>[] = []
    const write = (statement: keyof LimitStatements, ...values: unknown[]) =>
      writing.push(this.#sender.send(client, this.#statements[statement], [...given, ...values]))
    if (position !== rule.key_position) write('keepPosition', position)
    const kept = [...plan.kept()]
    if (kept.length > 0) {
      write('forgetStarts')
      write(
        'keepStarts',
        kept.map(([key]) => key),
        kept.map(([, starts]) => starts),
        kept.map(([key]) => countsUntil(key === wholeQueue ? sight.limits : sight.limits.perKey, sight.now)),
      )
    }
    const nonce = createNonce()
    const places = taken.map(({ place }) => place)
    const values = [namespace, places, nonce, workerId, leaseMs, sight.now]
    const taking =
      taken.length === 0 ? [] : this.#sender.sendForArrays<ClaimedRow>(client, this.#statements.take, values)
    keep()
    const [rows] = await Promise.all([taking, ...writing])
    return rows
      .map((row) => ({ ...decodeClaimedRow(row, nonce, workerId), limited: true as const }))
      .sort(byOrder)
  }

  /** Finds and locks the jobs to take from, in the order of claims; and the key behind which the next claim goes on. */
  async #choose(client: Runner, look: Look): Promise<Choice> {
    const { queue, request, room, sight, rule, front, isAll } = look
    // Jobs without a key and jobs with one are two lists; only this many of the merged list are sure to come first.
    const first = front.slice(0, room + spareCount)
    const isEnough = isAll || new LimitPlan(sight).take(first, room).length === room
    if (sight.limits.perKey === null || isEnough) return { candidates: first, position: rule.key_position }

    const { rows: found } = await this.#sender.send<HeadRow>(client, this.#statements.heads, [
      ...[this.#scope.namespace, queue, rule.key_position ?? '', maxKeys + 1, true],
    ])
    const heads = found.slice(0, maxKeys)
    const position = found.length > maxKeys ? heads.at(-1)!.limit_key : null
    for (const { limit_key: key, starts } of heads) if (starts !== null) sight.starts.set(key, starts)
    const keyless = front.filter(({ limitKey }) => limitKey === null)
    const { keys, wanted } = chooseKeys(heads, look)
    if (keys.length === 0) return { candidates: keyless, position }
    const { rows: keyed } = await this.#sender.send<LockedRow>(client, this.#statements.ofKeys, [
      ...[this.#scope.namespace, queue, request.kinds, keys, wanted, room],
    ])
    return { candidates: [...keyless, ...toCandidates(keyed, sight)].sort(byOrder), position }
  }
}

function toCandidates(rows: readonly LockedRow[], sight: Sight): readonly Candidate[] {
  for (const { limit_key: key, starts } of rows) {
    if (key !== null && typeof starts === 'string') sight.starts.set(key, starts)
  }
  return rows
    .map(({ place, id, limit_key: limitKey, priority, run_at: runAt }) => {
      return { place, id, limitKey, priority, runAt: Number(runAt) }
    })
    .sort(byOrder)
}

/**
 * The keys with free slots, and how many jobs of each may be among the best `room`. Only the `room` keys whose first jobs come first
 * can have such jobs.
 */
function chooseKeys(heads: readonly HeadRow[], { request, room, sight }: Look): KeyChoice {
  const plan = new LimitPlan(sight)
  const open = heads
    .map((row) => ({ ...row, key: row.limit_key, runAt: Number(row.run_at) }))
    .filter(({ key }) => plan.roomOf(key) > 0)
    .sort(byOrder)
  const [keys, wanted]: [string[], number[]] = [[], []]
  // A first job of another kind is not taken, but the rest of its key comes later than it.
  let ahead = 0
  for (const { key, kind } of open) {
    if (ahead === room) break
    keys.push(key)
    wanted.push(Math.min(plan.roomOf(key), room - ahead))
    if (request.kinds === null || request.kinds.includes(kind)) ahead++
  }
  return { keys, wanted }
}

/** How many more jobs than it may take a claim looks at before it goes from key to key. */
const spareCount = 50
/** How long a claim waits for its turn in this process. */
const waitMs = 500

interface Ask {
  readonly queue: string
  readonly request: ClaimRequest
  readonly limit: number
}

/** What was seen before any key was looked at. The starts of keys are added as they are read. */
interface Sight extends LimitSight {
  readonly starts: Map<string, string>
}

interface Look {
  readonly queue: string
  readonly request: ClaimRequest
  /** How many may be taken at most. */
  readonly room: number
  readonly sight: Sight
  readonly rule: RuleRow
  readonly front: readonly Candidate[]
  /** Whether the front is all there is. */
  readonly isAll: boolean
}

/** A job that was locked for a claim. */
interface Candidate extends InOrder {
  /** Where its row is, for as long as it is locked. */
  readonly place: string
  readonly limitKey: string | null
}

interface Choice {
  readonly candidates: readonly Candidate[]
  readonly position: string | null
}

interface KeyChoice {
  readonly keys: readonly string[]
  readonly wanted: readonly number[]
}

/** Of a row that cannot be read. */
const noLimits: QueueLimits = { concurrency: null, rate: null, perKey: null }

/** After that, starts of now count no more: a bucket ends at most a sixtieth of the span later. */
export function countsUntil(limit: QueueLimits['perKey'], now: number): number {
  const perMs = limit?.rate?.perMs ?? 0
  return now + perMs + Math.ceil(perMs / 60) + 1
}
