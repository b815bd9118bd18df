import type { QueueLimits } from '../../../jobs/index.ts'
import { countsUntil } from '../limit-claim.ts'
import { last, type Operation, operation, run } from '../procedure.ts'
import { statement } from '../statement.ts'

/**
 * Pauses and limits queues. A queue that is neither paused nor limited has no row. A claim from a queue with limits locks
 * the row, so these operations may wait for a claim. Running jobs are counted from their rows.
 */
const ofQueue = { namespace: 'text', queue: 'text' } as const
const isQueue = 'namespace = :namespace AND queue = :queue'

const pause = statement('queue_pause', ofQueue, (d) =>
  d.upsert({
    ...{ into: '@queue_control', columns: 'namespace, queue, paused_at', key: 'namespace, queue' },
    source: `VALUES (:namespace, :queue, ${d.now})`,
    set: { paused_at: 'coalesce(old.paused_at, new.paused_at)' },
  }),
)

const resume = statement(
  'queue_resume',
  ofQueue,
  () => `UPDATE @queue_control SET paused_at = NULL WHERE ${isQueue}`,
)

const clear = statement(
  'queue_clear',
  ofQueue,
  () => `DELETE FROM @queue_control WHERE ${isQueue} AND paused_at IS NULL AND limits IS NULL`,
)

const setLimits = statement('queue_limit', { ...ofQueue, limits: 'text' }, (d) =>
  d.upsert({
    ...{ into: '@queue_control', columns: 'namespace, queue, limits', key: 'namespace, queue' },
    source: 'VALUES (:namespace, :queue, :limits)',
    set: { limits: 'new.limits' },
  }),
)

const removeLimits = statement(
  'queue_unlimit',
  ofQueue,
  () => `UPDATE @queue_control SET limits = NULL, key_position = NULL WHERE ${isQueue}`,
)

const removeStarts = statement('queue_forget_starts', ofQueue, () => `DELETE FROM @job_rate WHERE ${isQueue}`)

/** Under new limits, starts may count for longer. */
const keepStarts = statement('queue_keep_starts', { ...ofQueue, keptMs: 'integer' }, (d) => {
  const { column, earlierMs } = d.jobs.limits.expiry
  const until = `${d.now} + :keptMs - ${earlierMs}`
  return `UPDATE @job_rate SET ${column} = ${until} WHERE ${isQueue} AND ${column} < ${until}`
})

export const pauseQueue: Operation<readonly [namespace: string, queue: string], void> = operation({
  name: 'pause a queue',
  connectionGroup: 'waiting',
  *procedure(namespace: string, queue: string) {
    yield* last(run(pause({ namespace, queue })))
  },
})

export const resumeQueue: Operation<readonly [namespace: string, queue: string], void> = operation({
  name: 'resume a queue',
  connectionGroup: 'waiting',
  *procedure(namespace: string, queue: string) {
    yield* last(run(resume({ namespace, queue }), clear({ namespace, queue })))
  },
})

/** Sets the limits of a queue; null removes them. */
export const limitQueue: Operation<
  readonly [namespace: string, queue: string, limits: QueueLimits | null],
  void
> = operation({
  name: 'limit a queue',
  connectionGroup: 'waiting',
  *procedure(namespace: string, queue: string, limits: QueueLimits | null) {
    const of = { namespace, queue }
    if (limits === null) {
      yield* last(run(removeLimits(of), removeStarts(of), clear(of)))
      return
    }
    const keptMs = Math.max(countsUntil(limits, 0), countsUntil(limits.perKey, 0))
    yield* last(run(setLimits({ ...of, limits: JSON.stringify(limits) }), keepStarts({ ...of, keptMs })))
  },
})
