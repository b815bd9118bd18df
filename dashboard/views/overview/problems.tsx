import type { ReactNode } from 'react'
import type { WireOverview } from '../../../src/http/client/index.ts'
import { Icon, type IconName } from '../../kit/icon.tsx'
import { Section } from '../../kit/page.tsx'
import type { Tone } from '../../kit/state.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time, useNow } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import type { LiveQueue } from '../../live/queues.ts'
import { useWorkers } from '../../live/workers.ts'
import { Link, type Query } from '../../shell/router.tsx'
import type { ViewName } from '../../shell/views.ts'
import type { Say } from '../../words/catalogue.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { overviewWords } from '../../words/overview.ts'
import { causeOf, type QueueCause } from './queue-cause.ts'

type Problem = WireOverview['problems'][number]

interface Kind {
  readonly says:
    | 'checkFailed'
    | 'deadJobs'
    | 'queuePaused'
    | 'queueBehind'
    | 'queueUntaken'
    | 'kindUnknown'
    | 'noNodes'
    | 'deadNotifications'
    | 'channelSealed'
    | 'clockJump'
  readonly tone: Tone
  readonly icon: IconName
  readonly to: ViewName
  readonly query?: (subject: string) => Query
}

const kinds: Readonly<Record<Problem['kind'], Kind>> = {
  check_failed: { says: 'checkFailed', tone: 'bad', icon: 'warning', to: 'settings' },
  no_nodes: { says: 'noNodes', tone: 'bad', icon: 'nodes', to: 'nodes' },
  dead_jobs: {
    ...{ says: 'deadJobs', tone: 'bad', icon: 'dead', to: 'jobs' },
    query: (queue) => ({ state: 'dead', queue }),
  },
  queue_behind: {
    ...{ says: 'queueBehind', tone: 'warn', icon: 'waiting', to: 'queue' },
    query: (name) => ({ name }),
  },
  no_worker: {
    ...{ says: 'queueUntaken', tone: 'bad', icon: 'waiting', to: 'workers' },
    query: (queue) => ({ queue }),
  },
  unknown_kind: {
    ...{ says: 'kindUnknown', tone: 'bad', icon: 'waiting', to: 'jobs' },
    query: (kind) => ({ state: 'ready', kind }),
  },
  queue_paused: {
    ...{ says: 'queuePaused', tone: 'warn', icon: 'paused', to: 'queue' },
    query: (name) => ({ name }),
  },
  clock_jump: { says: 'clockJump', tone: 'warn', icon: 'warning', to: 'settings' },
  dead_notifications: {
    ...{ says: 'deadNotifications', tone: 'bad', icon: 'monitor', to: 'monitor' },
    query: () => ({ part: 'notifications', status: 'dead' }),
  },
  channel_sealed: {
    ...{ says: 'channelSealed', tone: 'bad', icon: 'monitor', to: 'monitor' },
    query: () => ({ part: 'subscriptions' }),
  },
}

/** These say how long it has been. */
const spanned: ReadonlySet<Kind['says']> = new Set(['queueBehind', 'queueUntaken', 'kindUnknown'])

export interface ProblemsProps {
  readonly problems: readonly Problem[]
  readonly queues: readonly LiveQueue[]
  /** False: that there are none is not known yet, or no longer. */
  readonly isSure: boolean
}

/** The problems, worst first, each with a link. */
export function Problems({ problems, queues, isSure }: ProblemsProps): ReactNode {
  const say = useWords(overviewWords)
  if (problems.length === 0 && !isSure) return null
  if (problems.length === 0) {
    return (
      <p className="all-well good">
        <Icon name="completed" />
        <strong>{say('allWell')}</strong>
        <span className="aside">{say('allWellMore')}</span>
      </p>
    )
  }
  return (
    <Section title={say('problems')}>
      <ul className="problems">
        {problems.map((problem) => (
          <Line
            key={`${problem.kind} ${problem.subject}`}
            problem={problem}
            queue={queues.find(({ queue }) => queue === problem.subject)}
          />
        ))}
      </ul>
    </Section>
  )
}

interface LineProps {
  readonly problem: Problem
  /** The queue that it is about. */
  readonly queue: LiveQueue | undefined
}

/** The sentence, with its cause, says what the server's detail says. */
const told: ReadonlySet<Kind['says']> = new Set(['queueUntaken', 'kindUnknown'])

function Line({ problem, queue }: LineProps): ReactNode {
  const say = useWords(overviewWords)
  const format = useFormat()
  const now = useNow()
  const { says, tone, icon, to, query } = kinds[problem.kind]
  const cause = useCause(problem, queue)
  const isOfWorkers = cause !== undefined && cause.kind !== 'atLimit' && cause.kind !== 'worked'
  // That no worker takes it is what the sentence of such a queue says already.
  const isNews = says === 'queueBehind' || cause?.kind === 'allQuiet'
  const span = format.span(Math.max(0, now - (problem.since ?? now)))
  const values = { subject: visible(problem.subject), count: problem.count, span }
  return (
    <li className={tone}>
      <Icon name={icon} />
      <span>
        {say(says, values)}
        {cause !== undefined && isNews && `${say('causeJoin')}${causeText(cause, say)}`}{' '}
        <span className="aside">
          {problem.since !== null && !spanned.has(says) && <Time at={problem.since} />}{' '}
          {problem.detail && !told.has(says) && <Text value={problem.detail} />}
        </span>
      </span>
      {isOfWorkers ? (
        <Link to="workers" query={{ queue: problem.subject }}>
          {say('workersNext')}
        </Link>
      ) : (
        <Link to={to} query={query?.(problem.subject)}>
          {say(`${says}Next`)}
        </Link>
      )}
    </li>
  )
}

/** Of a queue that is behind or that no worker takes: why, as soon as its workers are known. */
function useCause({ kind, subject }: Problem, queue: LiveQueue | undefined): QueueCause | undefined {
  const isBehind = kind === 'queue_behind' || kind === 'no_worker'
  const { data } = useWorkers({ queue: subject, limit: 500 }, isBehind)
  return isBehind && data !== undefined ? causeOf(data.items, queue) : undefined
}

function causeText(cause: QueueCause, say: Say<typeof overviewWords>): string {
  return cause.kind === 'noWorker' ? say('noWorker') : say(cause.kind, { count: cause.count })
}
