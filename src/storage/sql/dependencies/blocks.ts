import type { BlockRecord } from '../../../jobs/index.ts'
import { many, type Operation, one, operation } from '../procedure.ts'
import { type Bound, type Statement, statement } from '../statement.ts'

/**
 * The periods in which jobs were blocked. The step that ends a period writes its row. Number 0 is the wait for other
 * jobs; any other number is the request for the job's lock. A period begins when the job's row last changed its state,
 * or when the previous period ended.
 */
const keptBlocks = 50

const since = (d: { greatest(...expressions: readonly string[]): string }) =>
  d.greatest(
    'q.updated_at',
    `coalesce((SELECT max(b.ended_at) FROM @job_block b WHERE b.namespace = q.namespace AND b.job_id = q.id), 0)`,
  )

/** Ends the blocks of jobs that are unblocked in the same transaction. Must run before their state changes. */
export const endBlocks: Statement<{
  namespace: string
  rows: readonly { readonly id: string; readonly number: number; readonly cause: string }[]
}> = statement(
  'job_blocks_end',
  { namespace: 'text', rows: { id: 'text', number: 'integer', cause: 'text' } },
  (d) => `
INSERT INTO @job_block (namespace, job_id, number, cause, started_at, ended_at)
SELECT q.namespace, q.id, v.number, v.cause, ${since(d)}, ${d.now}
FROM :rows ${d.thenJoin('@job_queue', 'q', `q.namespace = :namespace AND q.id = v.id`)}
WHERE q.state = 'waiting' ${d.keepExisting('namespace, job_id, number')}`,
)

const deleteOld = statement(
  'job_blocks_delete_old',
  { namespace: 'text', id: 'text', number: 'integer' },
  () =>
    `DELETE FROM @job_block WHERE namespace = :namespace AND job_id = :id AND number <= :number AND number > 0`,
)

/** Writes the block that a granted lock ended, and deletes the job's oldest blocks. */
export function endLockBlock(namespace: string, id: string, askNo: number): readonly Bound[] {
  const end = endBlocks({ namespace, rows: [{ id, number: askNo, cause: 'lock' }] })
  return askNo <= keptBlocks ? [end] : [end, deleteOld({ namespace, id, number: askNo - keptBlocks })]
}

const selectBlocks = statement(
  'job_blocks_of',
  { namespace: 'text', id: 'text', limit: 'integer' },
  () => `
SELECT cause, started_at, ended_at FROM @job_block WHERE namespace = :namespace AND job_id = :id
ORDER BY number DESC LIMIT :limit`,
)

const selectLasting = statement(
  'job_blocks_lasting',
  { namespace: 'text', id: 'text' },
  (d) => `
SELECT ${since(d)} AS started_at,
  (SELECT 1 FROM @job_dependency n WHERE n.namespace = q.namespace AND n.job_id = q.id AND n.is_met = FALSE LIMIT 1) AS unmet
FROM @job_queue q WHERE q.namespace = :namespace AND q.id = :id AND q.state = 'waiting'`,
)

interface BlockRow {
  readonly cause: BlockRecord['cause']
  readonly started_at: number | string
  readonly ended_at: number | string
}

export const listBlocks: Operation<readonly [namespace: string, id: string], readonly BlockRecord[]> =
  operation({
    name: 'list times in which a job was blocked',
    isRead: true,
    *procedure(namespace: string, id: string) {
      const rows = yield* many<BlockRow>(selectBlocks({ namespace, id, limit: keptBlocks }))
      const lasting = yield* one<{ started_at: number | string; unmet: number | string | null }>(
        selectLasting({ namespace, id }),
      )
      const ended = rows.map(
        (row): BlockRecord => ({
          cause: row.cause,
          startedAt: Number(row.started_at),
          endedAt: Number(row.ended_at),
        }),
      )
      if (lasting === undefined) return ended.reverse()
      const cause = lasting.unmet === null ? 'lock' : 'dependencies'
      return [
        ...ended.reverse(),
        { cause, startedAt: Number(lasting.started_at), endedAt: null } satisfies BlockRecord,
      ]
    },
  })
