import type { JobRecord, JobState, ListQuery, ReachQuery } from '../../../jobs/index.ts'
import { expiredError } from '../../expired-error.ts'
import { isOwnQueue } from '../../own-queue.ts'
import { decodeJobRow, type JobRow } from '../../sql/job-row.ts'
import type { Statement } from '../connection/calls.ts'
import type { Store } from '../engine-store.ts'
import { queueNames } from './queue-names.ts'
import { fromHistory, fromQueue, judged, shown } from './reads.ts'

/** What a list is made from. */
type Listed = Pick<Store, 'calls' | 'tables' | 'namespace'>

/**
 * Lists, newest first. What is rare among very many is found by an index where there is one: live jobs by state in that
 * of claims, ended ones by state and queue, the dead in a table of their own. All else is read by id, between the ends
 * that whoever asks has set (src/jobs/search/id-windows.ts).
 */
export async function list(store: Listed, query: ListQuery): Promise<readonly JobRecord[]> {
  const { state, limit } = query
  if (limit < 1) return []
  const parts: Statement[] = []
  if (state !== 'completed') parts.push(livePart(store, query))
  if (state === 'dead') parts.push(deadPart(store, query))
  else if (state === undefined || state === 'completed' || state === 'cancelled')
    parts.push(...historyParts(store, query))
  const rows = await store.calls.run('list jobs', (call) =>
    call.rows<JobRow>(
      `SELECT ${shown} FROM (${parts.map(([sql]) => `(${sql})`).join(' UNION ALL ')}) jobs ORDER BY id DESC LIMIT ?`,
      [...parts.flatMap(([, values]) => values), limit],
    ),
  )
  return rows.map(decodeJobRow)
}

export async function reach(store: Listed, { before, rows, among }: ReachQuery): Promise<string | null> {
  const [where, values] = wanted([
    ['namespace = ?', store.namespace],
    ['id < ?', before],
  ])
  const placeIn = (table: string) =>
    `(SELECT id FROM ${table} WHERE ${where} ORDER BY id DESC LIMIT 1 OFFSET ?)`
  const { queue, history } = store.tables
  const tables = [...(among === 'ended' ? [] : [queue]), ...(among === 'live' ? [] : [history])]
  const [row] = await store.calls.run('look how far a list reaches', (call) =>
    call.rows<{ id: string | null }>(
      `SELECT MAX(id) AS id FROM (${tables.map(placeIn).join(' UNION ALL ')}) places`,
      tables.flatMap(() => [...values, rows - 1]),
    ),
  )
  return row!.id
}

/** Conditions whose value is given, and their values. */
function wanted(conditions: readonly (readonly [sql: string, value: unknown])[]): Statement {
  const given = conditions.filter(([, value]) => value !== undefined)
  return [given.map(([sql]) => sql).join(' AND '), given.map(([, value]) => value)]
}

/** All that a list may ask of a table but the state. */
function asked(alias: string, store: Listed, { queue, kind, before, downTo }: ListQuery): Statement {
  return wanted([
    [`${alias}.namespace = ?`, store.namespace],
    [`${alias}.id < ?`, before],
    [`${alias}.id >= ?`, downTo],
    [`${alias}.queue = ?`, queue],
    [`${alias}.kind = ?`, kind],
  ])
}

/** As what live jobs are kept, where that is one state only: what is dead or cancelled there is an expired lease. */
const kept: Partial<Record<JobState, 'waiting' | 'running'>> = {
  waiting: 'waiting',
  running: 'running',
  dead: 'running',
  cancelled: 'running',
}

function livePart(store: Listed, query: ListQuery): Statement {
  const { queue, state, limit } = query
  const [where, values] = asked('q', store, query)
  const page = 'ORDER BY q.id DESC LIMIT ?'
  const { queue: jobs } = store.tables
  const one = state && kept[state]
  if (one === undefined) {
    // Of our own queues, too, only the entries of that queue are looked at.
    const index = queue !== undefined && isOwnQueue(queue) ? ' FORCE INDEX (job_queue_order)' : ''
    const [isIt, its] = wanted([[`${judged} = ?`, state]])
    return [
      `${fromQueue(store, `${jobs} q${index}`)} WHERE ${where}${isIt && ` AND ${isIt}`} ${page}`,
      [expiredError, ...values, ...its, limit],
    ]
  }
  // The index of claims has the jobs of each queue by state, and the names of queues are a short look at it.
  const ofState = `(${queueNames(store.tables)}) names STRAIGHT_JOIN ${jobs} q FORCE INDEX (job_queue_order)
      ON q.namespace = names.namespace AND q.queue = names.queue AND q.state = '${one}'`
  const names = [store.namespace, store.namespace]
  if (one === 'running')
    return [
      `${fromQueue(store, ofState)} WHERE ${where} AND ${judged} = ? ${page}`,
      [expiredError, ...names, ...values, state, limit],
    ]
  // Of those that wait there may be very many, too: only a page of them is read from the table itself.
  const places = `(SELECT q.namespace, q.id FROM ${ofState} WHERE ${where} ${page}) places`
  return [
    `${fromQueue(store, `${places} STRAIGHT_JOIN ${jobs} q ON q.namespace = places.namespace AND q.id = places.id`)} ${page}`,
    [expiredError, ...names, ...values, limit, limit],
  ]
}

const endedStates = ['completed', 'dead', 'cancelled'] as const

/** By state and queue each is a range of an index in the order of ids; so is each state of one queue. */
function historyParts(store: Listed, query: ListQuery): readonly Statement[] {
  const { queue, state, limit } = query
  const [where, values] = asked('h', store, query)
  const page = 'ORDER BY h.id DESC LIMIT ?'
  const { history } = store.tables
  const listed = `${history} h FORCE INDEX (job_history_list)`
  if (queue !== undefined)
    return (state === undefined ? endedStates : [state]).map((one) => [
      `${fromHistory(store, listed)} WHERE ${where} AND h.state = '${one}' ${page}`,
      [...values, limit],
    ])
  if (state !== 'cancelled') {
    const isIt = state === undefined ? '' : ` AND h.state = '${state}'`
    return [[`${fromHistory(store)} WHERE ${where}${isIt} ${page}`, [...values, limit]]]
  }
  const places = `(SELECT h.namespace, h.id FROM ${listed} WHERE ${where} AND h.state = 'cancelled' ${page}) places`
  const joined = `${places} STRAIGHT_JOIN ${history} h ON h.namespace = places.namespace AND h.id = places.id`
  return [[`${fromHistory(store, joined)} ${page}`, [...values, limit, limit]]]
}

/** The dead have a table of their own to find them by. */
function deadPart(store: Listed, query: ListQuery): Statement {
  const [where, values] = asked('d', store, query)
  const { dead, history } = store.tables
  const source = `${dead} d STRAIGHT_JOIN ${history} h ON h.namespace = d.namespace AND h.id = d.id`
  return [`${fromHistory(store, source)} WHERE ${where} ORDER BY d.id DESC LIMIT ?`, [...values, query.limit]]
}
