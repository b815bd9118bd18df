import type { OnceClient } from '../../../src/http/client/index.ts'
import type { Query } from '../../shell/router.tsx'

export type Guard = Awaited<ReturnType<OnceClient['list']>>['items'][number]
export type GuardStatus = Guard['status']
export type GuardSpace = 'once' | 'processing'

export const guardStatuses: readonly GuardStatus[] = ['running', 'done', 'failed', 'stuck']

/** The filters that an address holds. */
export interface Filters {
  readonly space: GuardSpace
  readonly status: GuardStatus | undefined
  readonly search: string | undefined
  readonly cursor: string | undefined
}

const pageGuards = 50
/** The server lists guards by key, not by status: of these it is looked through more at once. */
const lookedThrough = 500

export function filtersOf({ space, status, search, cursor }: Query): Filters {
  return {
    space: space === 'processing' ? space : 'once',
    status: guardStatuses.find((one) => one === status),
    search: search || undefined,
    cursor: cursor || undefined,
  }
}

/** The query for the server. */
export function questionOf({
  space,
  status,
  search,
  cursor,
}: Filters): NonNullable<Parameters<OnceClient['list']>[0]> {
  return {
    space,
    limit: status === undefined ? pageGuards : lookedThrough,
    ...(search === undefined ? {} : { search }),
    ...(cursor === undefined ? {} : { cursor }),
  }
}

/** How many are in which state. */
export function countByStatus(
  guards: readonly Pick<Guard, 'status'>[],
): Readonly<Record<GuardStatus, number>> {
  const counts = { running: 0, done: 0, failed: 0, stuck: 0 }
  for (const { status } of guards) counts[status]++
  return counts
}
