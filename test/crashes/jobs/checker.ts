/**
 * Decides from what was recorded, and from what the database holds at the end, whether the promises of the job queue
 * were kept (Q1 to Q6, Q11 and Q13). A pure function: every complaint names the promise and the job.
 */

import type { JobRecord } from '../../../src/jobs/index.ts'
import { decodeToken } from '../../../src/storage/token.ts'
import type { Effect } from '../ground.ts'
import type { HistoryEvent, HistoryItem } from '../history.ts'
import type { Payload } from './handlers.ts'

export interface Evidence {
  readonly events: readonly HistoryEvent[]
  /** Every job that the store knows at the end. */
  readonly records: readonly JobRecord[]
  readonly effects: readonly Effect[]
  /** Jobs as they were when they were first seen to have ended. */
  readonly endedEarlier: ReadonlyMap<string, JobRecord>
  /** Jobs whose adding was rolled back. */
  readonly neverAdded: readonly string[]
  /** No claimer was killed or cut off before it could write down what it got. */
  readonly everyGrantSeen?: boolean
}

export interface Verdicts {
  readonly complaints: readonly string[]
  /** What was seen, for the closing line. */
  readonly counts: Readonly<Record<string, number>>
}

const finals = ['completed', 'dead', 'cancelled']
const maxFree = 10

/** All that was seen of one lease. */
interface Lease {
  readonly job: string
  readonly token: string
  readonly number: number
  readonly grantedAt: number
  /** The greatest end that was confirmed, by the database's clock. */
  endsAt: number
  /** A caller tried to end it: from then on it may be free before its end. */
  mayHaveEnded: boolean
  /** A caller got the answer that it ended. */
  ends: number
}

export function check(evidence: Evidence): Verdicts {
  const { events, records, effects, endedEarlier, neverAdded, everyGrantSeen = false } = evidence
  const complaints: string[] = []
  const say = (promise: string, job: string, what: string) =>
    complaints.push(`${promise}: job ${job} ${what}`)
  const byId = new Map(records.map((record) => [record.id, record]))
  const added = itemsOf(events, 'add', ['ok'])
  const perhapsAdded = new Set(itemsOf(events, 'add', ['invoke', 'ok', 'info']).map(({ job }) => job))
  const leases = collectLeases(events)

  for (const { job } of added) if (!byId.has(job)) say('Q1', job, 'was added and is gone')
  for (const { id, state } of records) if (!finals.includes(state)) say('Q1', id, `is left ${state}`)

  const unwanted = new Set(neverAdded)
  for (const { id } of records) {
    if (unwanted.has(id)) say('Q2', id, 'was rolled back and exists')
    else if (!perhapsAdded.has(id)) say('Q2', id, 'exists without an add')
  }
  for (const [job] of leases) if (!byId.has(job)) say('Q2', job, 'was leased and does not exist')

  checkEffects(records, effects, leases, say)
  for (const [job, held] of leases) checkLeases(job, held, say)
  for (const record of records) {
    const grants = leases.get(record.id)?.length ?? 0
    checkAttempts(record, grants, say)
    const givenBackCount = record.handBackCount + record.snoozeCount
    if (everyGrantSeen && record.attempt + givenBackCount > grants)
      say(
        'Q6',
        record.id,
        `counts ${record.attempt} + ${givenBackCount} free, and was leased ${grants} times`,
      )
  }

  for (const [job, earlier] of endedEarlier) {
    const now = byId.get(job)
    if (
      now?.state !== earlier.state ||
      now.attempt !== earlier.attempt ||
      now.finishedAt !== earlier.finishedAt
    )
      say('Q11', job, `had ended as ${earlier.state} and became ${now?.state ?? 'nothing'}`)
  }

  const grants = [...leases.values()].reduce((sum, held) => sum + held.length, 0)
  const count = (state: string) => records.filter((record) => record.state === state).length
  return {
    complaints,
    counts: {
      jobs: records.length,
      completed: count('completed'),
      dead: count('dead'),
      grants,
      effects: effects.length,
    },
  }
}

function itemsOf(
  events: readonly HistoryEvent[],
  op: HistoryEvent['op'],
  types: readonly HistoryEvent['type'][],
): readonly HistoryItem[] {
  return events.filter((event) => event.op === op && types.includes(event.type)).flatMap(({ items }) => items)
}

function collectLeases(events: readonly HistoryEvent[]): ReadonlyMap<string, readonly Lease[]> {
  const byToken = new Map<string, Lease>()
  const byJob = new Map<string, Lease[]>()
  const key = ({ job, token }: HistoryItem) => `${job} ${token}`
  for (const item of itemsOf(events, 'claim', ['ok'])) {
    const lease: Lease = {
      job: item.job,
      token: item.token!,
      number: Number(decodeToken(item.token!)?.leaseNo),
      grantedAt: item.leaseEndsAt! - item.leaseMs!,
      endsAt: item.leaseEndsAt!,
      mayHaveEnded: false,
      ends: 0,
    }
    byToken.set(key(item), lease)
    byJob.set(item.job, [...(byJob.get(item.job) ?? []), lease])
  }
  for (const { op, type, items } of events) {
    for (const item of items) {
      const lease = item.token === undefined ? undefined : byToken.get(key(item))
      if (lease === undefined) continue
      if (op === 'renew' && type === 'ok') lease.endsAt = Math.max(lease.endsAt, item.leaseEndsAt!)
      if (op === 'settle' || op === 'settleIn' || op === 'transact') lease.mayHaveEnded = true
      if (type === 'ok' && (op === 'transact' || (op === 'settle' && item.took))) lease.ends++
    }
  }
  for (const held of byJob.values()) held.sort((a, b) => a.number - b.number)
  return byJob
}

type Say = (promise: string, job: string, what: string) => void

/** Q3: each part of the effect once if and only if the job completed. Q13: and by the last lease it ever had. */
function checkEffects(
  records: readonly JobRecord[],
  effects: readonly Effect[],
  leases: ReadonlyMap<string, readonly Lease[]>,
  say: Say,
): void {
  const byJob = Map.groupBy(effects, ({ job }) => job)
  const known = new Set(records.map(({ id }) => id))
  for (const job of byJob.keys()) if (!known.has(job)) say('Q3', job, 'has an effect and does not exist')
  for (const { id, kind, payload, state } of records) {
    const found = byJob.get(id) ?? []
    const parts = state === 'completed' ? partsOf(kind, JSON.parse(payload) as Payload) : []
    const wanted = [...parts].sort().join()
    const got = found
      .map(({ part }) => part)
      .sort()
      .join()
    if (wanted !== got) say('Q3', id, `(${kind}) is ${state} and has the effects [${got}], not [${wanted}]`)
    const token = found[0]?.token
    const last = leases.get(id)?.at(-1)
    if (token !== undefined && last !== undefined && Number(decodeToken(token)?.leaseNo) < last.number)
      say('Q13', id, `committed with lease ${token} and was leased again as ${last.token}`)
  }
}

function partsOf(kind: string, { parts }: Payload): readonly string[] {
  if (parts !== undefined) return parts
  if (kind === 'plain' || kind === 'poison') return []
  return kind === 'tangle' ? ['before', 'after'] : ['main']
}

/** Q4: one end, by the last lease. Q5: one lease at a time by the database's clock, and rising numbers. */
function checkLeases(job: string, held: readonly Lease[], say: Say): void {
  for (const [index, lease] of held.entries()) {
    if (lease.ends > 1) say('Q4', job, `was ended ${lease.ends} times with lease ${lease.token}`)
    const next = held[index + 1]
    if (next === undefined) continue
    if (next.number === lease.number) say('Q5', job, `was leased twice as number ${lease.number}`)
    if (next.grantedAt < lease.grantedAt)
      say('Q5', job, `has lease ${next.number} from before ${lease.number}`)
    if (!lease.mayHaveEnded && next.grantedAt < lease.endsAt)
      say('Q5', job, `was leased anew ${lease.endsAt - next.grantedAt} ms before lease ${lease.number} ended`)
  }
}

/** Q6: every grant is an attempt or was handed back free; no job has more attempts than allowed. */
function checkAttempts(record: JobRecord, grants: number, say: Say): void {
  const { id, attempt, maxAttempts, handBackCount, snoozeCount, state, error } = record
  if (attempt > maxAttempts) say('Q6', id, `has ${attempt} attempts of ${maxAttempts}`)
  const givenBackCount = handBackCount + snoozeCount
  if (handBackCount > maxFree) say('Q6', id, `was handed back free ${handBackCount} times`)
  if (attempt + givenBackCount < grants)
    say('Q6', id, `was leased ${grants} times, and counts ${attempt} + ${givenBackCount} free`)
  if (state === 'dead' && attempt !== maxAttempts) say('Q6', id, `is dead after ${attempt} of ${maxAttempts}`)
  if (state === 'dead' && error === null) say('Q6', id, 'is dead without a reason')
  if (state === 'completed' && attempt < 1) say('Q6', id, 'is completed without an attempt')
}
