import type { EndedQuery, JobEnd } from '../../jobs/index.ts'
import { columns } from './columns.ts'
import { readAll } from './operations.ts'
import type { Operation } from './procedure.ts'
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

const end = columns<JobEnd>({
  ...{ id: 'text', kind: 'text', state: 'text', attempt: 'integer', createdAt: 'integer' },
  ...{ startedAt: 'integer | null', finishedAt: 'integer' },
})

export const listEnds: Operation<readonly [namespace: string, query: EndedQuery], readonly JobEnd[]> =
  readAll(
    'list ended jobs',
    (namespace: string, { queue, from, after, limit }: EndedQuery) =>
      selectEnds({ namespace, queue, from, after, limit }),
    end.decode,
  )
