import type { EndedQuery, JobEnd } from '../../jobs/index.ts'
import { many, type Operation, operation } from './procedure.ts'
import { statement } from './statement.ts'

/** Jobs of a queue in the order in which they ended; `from` is included, `after` is the id behind which a page begins. */
const selectEnds = statement(
  'job_ends',
  { namespace: 'text', queue: 'text', from: 'integer', 'after?': 'text', limit: 'integer' },
  (d) => `
SELECT h.id, h.kind, ${d.text('h.state')} AS state, h.attempt, h.created_at, h.started_at, h.finished_at
FROM @job_history h ${d.byIndex('job_history_ended')}
WHERE h.finished_at >= :from AND h.namespace = :namespace AND h.queue = :queue
  {AND (h.finished_at > :from OR h.id > :after)}
ORDER BY h.finished_at, h.id LIMIT :limit`,
)

interface EndRow {
  readonly id: string
  readonly kind: string
  readonly state: JobEnd['state']
  readonly attempt: number | string
  readonly created_at: number | string
  readonly started_at: number | string | null
  readonly finished_at: number | string
}

export const listEnds: Operation<readonly [namespace: string, query: EndedQuery], readonly JobEnd[]> =
  operation({
    name: 'list ended jobs',
    isRead: true,
    *procedure(namespace: string, { queue, from, after, limit }: EndedQuery) {
      const rows = yield* many<EndRow>(selectEnds({ namespace, queue, from, after, limit }))
      return rows.map(
        (row): JobEnd => ({
          id: row.id,
          kind: row.kind,
          state: row.state,
          attempt: Number(row.attempt),
          createdAt: Number(row.created_at),
          startedAt: row.started_at === null ? null : Number(row.started_at),
          finishedAt: Number(row.finished_at),
        }),
      )
    },
  })
