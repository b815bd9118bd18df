import type { ReactNode } from 'react'
import { showCount } from '../../../src/http/client/index.ts'
import { Growing } from '../../kit/growing.tsx'
import { Icon, type IconName } from '../../kit/icon.tsx'
import { Section } from '../../kit/page.tsx'
import type { Tone } from '../../kit/state.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time, useNow } from '../../kit/text/time.tsx'
import { brief, visible } from '../../kit/text/visible.ts'
import type { LiveQueue } from '../../live/queues.ts'
import { Link, type Query } from '../../shell/router.tsx'
import type { ViewName } from '../../shell/views.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { overviewWords } from '../../words/overview.ts'
import { eachKindFirst } from './each-kind-first.ts'
import { type Problem, useCause } from './use-cause.ts'

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
      <Growing
        items={problems.length > shownProblems ? eachKindFirst(problems) : problems}
        step={shownProblems}
      >
        {(shown) => (
          <ul className="problems">
            {shown.map((problem) => (
              <Line
                key={`${problem.kind} ${problem.subject}`}
                problem={problem}
                queue={queues.find(({ queue }) => queue === problem.subject)}
              />
            ))}
          </ul>
        )}
      </Growing>
    </Section>
  )
}

/** More of them would push the numbers out of sight. */
const shownProblems = 8

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
  const span = format.span(Math.max(0, now - (problem.since ?? now)))
  const subject = brief(problem.subject)
  const isCut = subject !== visible(problem.subject)
  // With "~" the count is a text, whose plural is that of many.
  const count = queue?.approximate ? showCount(queue, problem.count, format.number) : problem.count
  return (
    <li className={tone} title={isCut ? visible(problem.subject) : undefined}>
      <Icon name={icon} />
      <span>
        {say(says, { subject, count, span })}
        {cause.text !== undefined && `${say('causeJoin')}${cause.text}`}{' '}
        <span className="aside">
          {problem.since !== null && !spanned.has(says) && <Time at={problem.since} />}{' '}
          {problem.detail && !told.has(says) && <Text value={problem.detail} />}
        </span>
      </span>
      {cause.isOfWorkers ? (
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
