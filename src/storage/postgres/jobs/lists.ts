import type { JobState, ListQuery } from '../../../jobs/index.ts'
import { isOwn, isOwnQueue } from '../../own-queue.ts'
import { nowMs } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'

/**
 * The statement of a list: only the tables in which such a job can be, and only the conditions that were given. One for all
 * of them, with "unless none was given" before each, would be planned for none of them: no index could be used.
 */
export interface ListStatement {
  readonly statement: Statement
  /** Those from the third on: the first is the namespace, the second the error of expired leases. */
  readonly values: unknown[]
}

/** Selections of one shape, from jobs that wait, have ended, or are in a lease; each ends in a condition. */
export interface Sources {
  readonly pending: string
  readonly history: string
  readonly leased: string
}

/** No id is above it. */
export const aboveAll = '\u{10ffff}'

/** In which states a job may be there. */
const states: Readonly<Record<keyof Sources, readonly JobState[]>> = {
  pending: ['ready', 'scheduled', 'waiting'],
  history: ['completed', 'dead', 'cancelled'],
  leased: ['running', 'ready', 'dead', 'cancelled'],
}
const aliases = { pending: 'p', history: 'h', leased: 'q' } as const

/** Who waits by time alone is what its time says. */
const pendingStates: Partial<Record<JobState, string>> = {
  waiting: `p.state = 'waiting'`,
  ready: `p.state <> 'waiting' AND p.run_at <= ${nowMs}`,
  scheduled: `p.state <> 'waiting' AND p.run_at > ${nowMs}`,
}

export function listStatement(sources: Sources, query: ListQuery): ListStatement {
  const { queue, kind, state, before, downTo, limit } = query
  const values: unknown[] = [limit]
  const given: [column: string, operator: string, place: string][] = []
  const give = (column: string, operator: string, value: string | undefined) => {
    if (value !== undefined) given.push([column, operator, `$${values.push(value) + 2}`])
  }
  // A range with two ends is planned as one.
  give('id', '<', before ?? (downTo === undefined ? undefined : aboveAll))
  give('id', '>=', downTo)
  give('queue', '=', queue)
  give('kind', '=', kind)
  const own = queue !== undefined && isOwnQueue(queue)
  const pages = (['pending', 'history', 'leased'] as const)
    .filter((source) => state === undefined || states[source].includes(state))
    .map((source) => {
      const alias = aliases[source]
      const conditions = given.map(([column, operator, place]) => `${alias}.${column} ${operator} ${place}`)
      // Said twice, for an index of these alone is only thought of where that is known.
      if (own && source !== 'leased') conditions.push(isOwn(`${alias}.queue`))
      if (state !== undefined) conditions.push(stateIn(source, state))
      const where = conditions.map((condition) => ` AND ${condition}`).join('')
      return `(${sources[source]}${where} ORDER BY ${alias}.id DESC LIMIT $3)`
    })
  // What is told apart: which conditions there are, in what state, and whether a queue is our own.
  const name = ['sb_list', state ?? 'any', own ? 'own' : '', ...given.map(([column, sign]) => column + sign)]
  return {
    // $1 and $2 are in every text, also where no lease is looked at.
    statement: {
      name: name.join('_'),
      text: `SELECT * FROM (\n${pages.join('\nUNION ALL\n')}\n) jobs WHERE $2::text IS NOT NULL ORDER BY id COLLATE "C" DESC LIMIT $3`,
    },
    values,
  }
}

function stateIn(source: keyof Sources, state: JobState): string {
  if (source === 'pending') return pendingStates[state]!
  if (source === 'leased') return `q.state = '${state}'`
  return state === 'completed' ? `h.state = 'completed'` : `h.state = '${state}' AND h.state <> 'completed'`
}
