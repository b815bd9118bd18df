import type { Clock } from '../../../core/clock.ts'
import { setNewest } from '../../../core/newest-entries.ts'
import type { ClaimedJob, JobState } from '../../../jobs/index.ts'
import type { Ending, History } from './activity-history.ts'
import { createCappedLines } from './capped-series.ts'
import {
  createHistogramCell,
  type Family,
  type HistogramCell,
  type Labels,
  type Value,
  workBounds,
} from './metric-series.ts'

/**
 * Counts the jobs that pass through this server: how long they waited, how long they ran, how they ended. An ack names
 * no queue, so what was claimed is remembered until it is settled; a job that was claimed elsewhere counts as `unknown`.
 *
 * People choose the names of queues and kinds, and a metric must not grow with them: up to 500 kinds in queues have
 * counters of their own and up to 100 queues have times of their own; the rest share those of `other`. Who was not seen
 * for an hour makes room.
 */
export interface JobMeter {
  claimed(namespace: string, jobs: readonly MeteredJob[]): void
  settled(namespace: string, jobId: string, state: JobState): void
  /** What was counted, of one namespace or of all. */
  families(namespace: string | undefined): readonly Family[]
}

export type MeteredJob = Pick<ClaimedJob, 'id' | 'queue' | 'kind' | 'runAt' | 'startedAt'>

/** How much a meter remembers. */
export const jobMeterLimits: { readonly kinds: number; readonly queues: number; readonly held: number } = {
  kinds: 500,
  queues: 100,
  held: 50_000,
}

/** How an attempt can end, by the state it leaves the job in. */
const outcomeOf: Readonly<Record<JobState, Outcome>> = {
  completed: 'completed',
  dead: 'dead',
  cancelled: 'cancelled',
  scheduled: 'retried',
  ready: 'handed_back',
  // Neither is a state that an attempt ends in.
  waiting: 'handed_back',
  running: 'handed_back',
}
type Outcome = (typeof outcomes)[number]
const outcomes = ['completed', 'retried', 'dead', 'cancelled', 'handed_back'] as const

type Endings = Record<Outcome, number>
interface Times {
  readonly wait: HistogramCell
  readonly run: HistogramCell
}
interface HeldJob {
  readonly endings: Endings
  readonly times: Times
  readonly at: number
}

/** What a history calls an outcome; the rest end nothing that it counts. */
const endingOf: Readonly<Record<Outcome, Ending>> = {
  completed: 'completed',
  retried: 'retried',
  dead: 'dead',
  cancelled: 'other',
  handed_back: 'other',
}

/** `history`, where there is one, learns of the same. */
export function createJobMeter(clock: Clock, history?: Pick<History, 'waited' | 'ended'>): JobMeter {
  const kinds = createCappedLines<Endings>({
    labelNames: ['namespace', 'queue', 'name'],
    limit: jobMeterLimits.kinds,
    create: () => ({ completed: 0, retried: 0, dead: 0, cancelled: 0, handed_back: 0 }),
  })
  const queues = createCappedLines<Times>({
    labelNames: ['namespace', 'queue'],
    limit: jobMeterLimits.queues,
    create: () => ({ wait: createHistogramCell(workBounds), run: createHistogramCell(workBounds) }),
  })
  /** Oldest first. */
  const held = new Map<string, HeldJob>()

  function hold(id: string, job: HeldJob): void {
    setNewest(held, id, job, jobMeterLimits.held)
  }

  return {
    claimed(namespace, jobs) {
      const at = clock.now()
      for (const { id, queue, kind, runAt, startedAt } of jobs) {
        const times = queues.find([namespace, queue], at)
        // Both by the store's clock.
        if (startedAt !== null) {
          const waitedMs = Math.max(0, startedAt - runAt)
          times.wait.observe(waitedMs / 1_000)
          history?.waited(namespace, waitedMs)
        }
        hold(id, { endings: kinds.find([namespace, queue, kind], at), times, at })
      }
    },

    settled(namespace, jobId, state) {
      const now = clock.now()
      const known = held.get(jobId)
      held.delete(jobId)
      const endings = known?.endings ?? kinds.find([namespace, 'unknown', 'unknown'], now)
      const outcome = outcomeOf[state]
      endings[outcome]++
      known?.times.run.observe((now - known.at) / 1_000)
      history?.ended(namespace, endingOf[outcome], known && now - known.at)
    },

    families(namespace) {
      const isShown = ({ labels }: { readonly labels: Labels }) =>
        namespace === undefined || labels.namespace === namespace
      const times = queues.all().filter(isShown)
      const histogram = (name: string, help: string, which: keyof Times): Family => ({
        name,
        help,
        type: 'histogram',
        values: times.flatMap(({ labels, cells }) => cells[which].values(name, labels)),
      })
      return [
        {
          name: 'signalbox_jobs_total',
          help: 'Attempts that ended through this server, by how they ended.',
          type: 'counter',
          values: kinds
            .all()
            .filter(isShown)
            .flatMap(({ labels, cells }) =>
              outcomes.map((outcome): Value => ({ labels: { ...labels, outcome }, value: cells[outcome] })),
            ),
        },
        histogram(
          'signalbox_job_wait_seconds',
          'From when a job could have been claimed until it was, through this server.',
          'wait',
        ),
        histogram('signalbox_job_run_seconds', 'From claim to ack or nack, both through this server.', 'run'),
      ]
    },
  }
}
