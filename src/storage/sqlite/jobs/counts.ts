import { type EstimateJobs, oldestPriorities } from '../../sql/job-counts.ts'
import type { JobLayout, LayoutDialect } from '../../sql/job-layout.ts'
import { readNow } from '../connection/connection.ts'
import type { Reader } from '../connection/reader.ts'
import { isInSample, sampleShare } from '../schema.ts'

const byPlace = 'q.kind, q.priority DESC, q.run_at'

/** Running jobs have no index by queue. There are only as many as workers run at once, so all are read. */
export function createWalks({ now }: LayoutDialect): JobLayout['walks'] {
  const of = (index: string) => ({ from: `job_queue q INDEXED BY ${index}`, runAt: 'q.run_at' })
  return {
    ready: {
      ...{
        ...of('job_queue_ready'),
        where: `q.state = 'ready' AND q.limit_key IS NULL`,
        state: { is: 'ready' },
      },
      kinds: { ready: { where: 'TRUE', orderBy: byPlace } },
    },
    keyed: {
      ...{
        ...of('job_queue_keyed'),
        where: `q.state = 'ready' AND q.limit_key IS NOT NULL`,
        state: { is: 'ready' },
      },
      kinds: { keyed: { where: 'TRUE', orderBy: byPlace } },
    },
    scheduled: {
      ...{ ...of('job_queue_idle'), where: `q.state = 'scheduled' AND q.queue <> ''` },
      state: { by: `iif(q.run_at <= ${now}, 'ready', 'scheduled')` },
      kinds: {
        due: { where: `q.run_at <= ${now}`, orderBy: 'q.run_at', state: { is: 'ready' } },
        scheduled: { where: `q.run_at > ${now}`, orderBy: 'q.run_at', state: { is: 'scheduled' } },
      },
    },
    waiting: {
      ...{
        ...of('job_queue_idle'),
        where: `q.state = 'waiting' AND q.queue <> ''`,
        state: { is: 'waiting' },
      },
      kinds: { waiting: { where: 'TRUE', orderBy: 'q.run_at' } },
    },
    running: {
      ...{ ...of('job_queue_running'), where: `q.state = 'running'` },
      state: {
        by: `CASE WHEN q.lease_ends_at > ${now} THEN 'running'
        WHEN EXISTS (SELECT 1 FROM job_cancel c
          WHERE c.namespace = q.namespace AND c.job_id = q.id AND c.lease_no = q.lease_no) THEN 'cancelled'
        WHEN q.attempt < q.max_attempts THEN 'ready' ELSE 'dead' END`,
      },
      kinds: {
        expired: { where: `q.lease_ends_at <= ${now}`, orderBy: 'q.lease_ends_at' },
        running: { where: `q.lease_ends_at > ${now}`, orderBy: 'q.lease_ends_at', state: { is: 'running' } },
      },
    },
    dead: {
      ...{ from: 'job_history q INDEXED BY job_history_dead', runAt: 'NULL' },
      ...{ where: `q.state = 'dead' AND q.queue <> ''`, state: { is: 'dead' } },
      kinds: { dead: { where: 'TRUE', orderBy: 'q.queue' } },
    },
  }
}

/** Walks an index from priority to priority, for each kind of jobs. */
function findOldest(index: string, where: string): string {
  const rest = `FROM job_queue INDEXED BY ${index} WHERE namespace = ?1 AND queue = ?2 AND ${where}`
  return `
  WITH RECURSIVE first (row, number) AS (
    SELECT (SELECT rowid ${rest} ORDER BY kind, priority DESC, run_at LIMIT 1), 1
    UNION ALL
    SELECT coalesce(
      (SELECT rowid ${rest} AND kind = at.kind AND priority < at.priority ORDER BY priority DESC, run_at LIMIT 1),
      (SELECT rowid ${rest} AND kind > at.kind ORDER BY kind, priority DESC, run_at LIMIT 1)), number + 1
    FROM first CROSS JOIN job_queue at ON at.rowid = first.row WHERE number < ${oldestPriorities}
  )
  SELECT min(q.run_at) AS oldest FROM first CROSS JOIN job_queue q ON q.rowid = first.row`
}

const kinds: Readonly<Record<string, string>> = {
  ready: `state = 'ready' AND limit_key IS NULL`,
  keyed: `state = 'ready' AND limit_key IS NOT NULL`,
  due: `state = 'scheduled' AND run_at <= ?3`,
  scheduled: `state = 'scheduled' AND run_at > ?3`,
  waiting: `state = 'waiting'`,
  expired: `state = 'running' AND lease_ends_at <= ?3`,
  running: `state = 'running' AND lease_ends_at > ?3`,
}

const readyIndexes: Readonly<Record<string, string>> = { ready: 'job_queue_ready', keyed: 'job_queue_keyed' }

/** Estimates from the sample. Dead jobs have no sample; their index counts them. */
export function createEstimate(reader: Reader, namespace: string): EstimateJobs {
  const inSample = (
    kind: string,
  ) => `SELECT ${sampleShare} * count(*) AS jobs FROM job_queue INDEXED BY job_queue_sample
    WHERE namespace = ?1 AND queue = ?2 AND ${kinds[kind]} AND ${isInSample} AND ?3 IS NOT NULL`
  const dead = `SELECT count(*) AS jobs FROM job_history INDEXED BY job_history_dead
    WHERE namespace = ?1 AND queue = ?2 AND state = 'dead' AND queue <> '' AND ?3 IS NOT NULL`
  return (queue, kind) =>
    reader.read((connection) => {
      const text = kind === 'dead' ? dead : inSample(kind)
      const { jobs } = connection.get<{ jobs: number }>(text, namespace, queue, readNow(connection))!
      const index = readyIndexes[kind]
      if (index === undefined) return { jobs }
      const first = connection.get<{ oldest: number | null }>(
        findOldest(index, kinds[kind]!),
        namespace,
        queue,
      )
      return { jobs, oldest: first?.oldest ?? Infinity }
    })
}
