import type { JobState } from '../../../jobs/index.ts'
import { type EstimateJobs, oldestPriorities } from '../../sql/job-counts.ts'
import type { JobKind, JobLayout, LayoutDialect } from '../../sql/job-layout.ts'
import type { Call } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'

/**
 * One index has all live jobs, by queue and state. It does not have attempts, so those of expired leases are looked up.
 */
export function createWalks({ now }: LayoutDialect): JobLayout['walks'] {
  const row = (select: string) =>
    `(SELECT ${select} FROM @job_queue r FORCE INDEX (PRIMARY) WHERE r.namespace = q.namespace AND r.id = q.id)`
  return {
    live: {
      ...{ from: '@job_queue q FORCE INDEX (job_queue_order)', where: 'TRUE' },
      state: {
        by: `CASE WHEN q.state = 'ready' THEN 'ready' WHEN q.state = 'waiting' THEN 'waiting'
        WHEN q.state = 'scheduled' THEN IF(q.sort_at <= ${now}, 'ready', 'scheduled')
        WHEN q.sort_at > ${now} THEN 'running'
        WHEN EXISTS (SELECT 1 FROM @job_cancel c WHERE c.namespace = q.namespace AND c.job_id = q.id) THEN 'cancelled'
        WHEN ${row('r.attempt < r.max_attempts')} THEN 'ready' ELSE 'dead' END`,
      },
      runAt: `CASE WHEN q.state <> 'running' THEN q.sort_at WHEN q.sort_at <= ${now} THEN ${row('r.run_at')} END`,
      kinds: Object.fromEntries(
        Object.entries(ranges(now)).map(([name, where]) => [name, kindOf(name, where)]),
      ),
    },
    dead: {
      ...{ from: '@job_dead q', where: 'TRUE', state: { is: 'dead' }, runAt: 'NULL' },
      kinds: { dead: { where: 'TRUE', orderBy: 'q.id' } },
    },
  }
}

const shown: Readonly<Record<string, JobState>> = {
  ...{ ready: 'ready', waiting: 'waiting', due: 'ready', scheduled: 'scheduled', running: 'running' },
}

function kindOf(name: string, where: string): JobKind {
  const is = shown[name]
  return { where, orderBy: 'q.sort_rank, q.sort_at', ...(is === undefined ? {} : { state: { is } }) }
}

/** The range of the index for each kind. Only ready jobs have a rank. */
const ranges = (now: string): Readonly<Record<string, string>> => ({
  ready: `q.state = 'ready'`,
  waiting: `q.state = 'waiting'`,
  due: `q.state = 'scheduled' AND q.sort_rank = 0 AND q.sort_at <= ${now}`,
  scheduled: `q.state = 'scheduled' AND q.sort_rank = 0 AND q.sort_at > ${now}`,
  expired: `q.state = 'running' AND q.sort_rank = 0 AND q.sort_at <= ${now}`,
  running: `q.state = 'running' AND q.sort_rank = 0 AND q.sort_at > ${now}`,
})

/**
 * Estimates with the optimizer, which reads a few pages of the index. For a long range it doubles its result, and
 * returns at most half of the table. So a longer range is estimated from the rows beside it.
 */
export function createEstimate({
  calls,
  tables,
  namespace,
}: Pick<Store, 'calls' | 'tables' | 'namespace'>): EstimateJobs {
  return (queue, kind) => {
    const { [kind]: range = 'TRUE', ...others } = ranges(nowMs)
    const [table, index] = kind === 'dead' ? [tables.dead, 'PRIMARY'] : [tables.queue, 'job_queue_order']
    // Other kinds are named: `state <> 'ready'` would not be a range, because states are an ENUM.
    const other = kind === 'dead' ? 'FALSE' : Object.values(others).join(' OR ')
    const from = `EXPLAIN SELECT 1 FROM ${table} q FORCE INDEX (${index})`
    const within = `${from} WHERE q.namespace = ? AND q.queue = ? AND ${range}`
    const beside = `${from} WHERE q.namespace < ? OR q.namespace > ? OR (q.namespace = ? AND q.queue < ?)
      OR (q.namespace = ? AND q.queue > ?) OR (q.namespace = ? AND q.queue = ? AND (${other}))`
    const besides = [namespace, namespace, ...[0, 1, 2].flatMap(() => [namespace, queue])]
    return calls.run('estimate jobs', async (call) => {
      const plans = (await call.packet([
        [from, []],
        [within, [namespace, queue]],
        [beside, besides],
      ])) as readonly (readonly { readonly rows: number | string }[])[]
      const [all, found, rest] = plans.map(([plan]) => Number(plan!.rows))
      const jobs = estimateRange(all!, found!, rest! / 2)
      return kind === 'ready' ? { jobs, oldest: await findOldest(call) } : { jobs }
    })

    /** Walks the index from priority to priority. A subquery that did so would read all of it. */
    async function findOldest(call: Call): Promise<number> {
      let oldest = Infinity
      for (let hops = 0, rank = -Infinity; hops < oldestPriorities; hops++) {
        const [first] = await call.rows<{ rank: number; at: number }>(
          `SELECT sort_rank AS rank, sort_at AS at FROM ${tables.queue} FORCE INDEX (job_queue_order)
            WHERE namespace = ? AND queue = ? AND state = 'ready' AND sort_rank > ? ORDER BY sort_rank, sort_at LIMIT 1`,
          [namespace, queue, Math.max(rank, Number.MIN_SAFE_INTEGER)],
        )
        if (first === undefined) break
        rank = Number(first.rank)
        oldest = Math.min(oldest, Number(first.at))
      }
      return oldest
    }
  }
}

/** Estimates from the rows of the table, the result for the range, and the rows beside it. */
function estimateRange(all: number, found: number, rest: number): number {
  // The optimizer may have doubled the result or not: use the middle.
  if (found < all * 0.49) return found / Math.SQRT2
  const most = Math.max(all / 4, all - rest)
  // If a range beside it is long too, this one is between a quarter of the table and `most`: use the middle.
  return rest < all / 4 ? most : Math.sqrt((all / 4) * most)
}
