import type { WireOverview } from '../../../src/http/client/index.ts'
import { brief } from '../../kit/text/visible.ts'
import { useLive } from '../../live/queries.ts'
import type { LiveQueue } from '../../live/queues.ts'
import { useWorkers } from '../../live/workers.ts'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { overviewWords } from '../../words/overview.ts'
import { causeOf } from './queue-cause.ts'

export type Problem = WireOverview['problems'][number]

/** Why there is a problem, as far as one can ask. */
export interface Cause {
  /** In words; undefined where the sentence about the problem says it already. */
  readonly text: string | undefined
  /** There is something to do about workers. */
  readonly isOfWorkers: boolean
}

const none: Cause = { text: undefined, isOfWorkers: false }

/** The cause of a problem, as soon as it is known; `queue` is the one that it is about. */
export function useCause(problem: Problem, queue: LiveQueue | undefined): Cause {
  const ofWorkers = useWorkerCause(problem, queue)
  const ofError = useErrorCause(problem)
  return ofWorkers ?? (ofError === undefined ? none : { text: ofError, isOfWorkers: false })
}

/** Of a queue that is behind or that no worker takes: what its workers do. */
function useWorkerCause({ kind, subject }: Problem, queue: LiveQueue | undefined): Cause | undefined {
  const say = useWords(overviewWords)
  const isBehind = kind === 'queue_behind' || kind === 'no_worker'
  const { data } = useWorkers({ queue: subject, limit: 500 }, isBehind)
  if (!isBehind || data === undefined) return undefined
  const cause = causeOf(data.items, queue)
  // That no worker takes it is what the sentence of such a queue says already.
  const isNews = kind === 'queue_behind' || cause.kind === 'allQuiet'
  const text = cause.kind === 'noWorker' ? say('noWorker') : say(cause.kind, { count: cause.count })
  return { text: isNews ? text : undefined, isOfWorkers: cause.kind !== 'atLimit' && cause.kind !== 'worked' }
}

const everyMs = 10_000
/** Dead notifications among which those of one subscription are looked for; the lines of all subscriptions share them. */
const askedNotifications = 50

/** Of dead jobs and notifications: the error of the newest. */
function useErrorCause({ kind, subject }: Problem): string | undefined {
  const say = useWords(overviewWords)
  const client = useClient()
  const dead = { state: 'dead', queue: subject, limit: 1 } as const
  const jobs = useLive(['jobs', dead], () => client.jobs.list(dead), {
    ...{ everyMs, enabled: kind === 'dead_jobs' },
  })
  const lost = { status: 'dead', limit: askedNotifications } as const
  const notifications = useLive(['monitor', lost], () => client.monitor.notifications(lost), {
    ...{ everyMs, enabled: kind === 'dead_notifications' },
  })
  const error =
    kind === 'dead_jobs'
      ? jobs.data?.items[0]?.error
      : notifications.data?.items.find(({ subscription }) => subscription === subject)?.error
  if (!error) return undefined
  const name = 'name' in error && error.name !== undefined ? `${error.name}: ` : ''
  return say('newestError', { error: brief(`${name}${error.message}`) })
}
