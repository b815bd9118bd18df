import type { ReactNode } from 'react'
import type { WireOverview } from '../../../src/http/client/index.ts'
import { Icon, type IconName } from '../../kit/icon.tsx'
import { Section } from '../../kit/page.tsx'
import type { Tone } from '../../kit/state.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { Link, type Query } from '../../shell/router.tsx'
import type { ViewName } from '../../shell/views.ts'
import { useWords } from '../../words/language.tsx'
import { overviewWords } from '../../words/overview.ts'

type Problem = WireOverview['problems'][number]

interface Kind {
  readonly says:
    | 'checkFailed'
    | 'deadJobs'
    | 'queuePaused'
    | 'queueBehind'
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

export interface ProblemsProps {
  readonly problems: readonly Problem[]
  /** False: that there are none is not known yet, or no longer. */
  readonly isSure: boolean
}

/** What somebody should look at, worst first, each with the way there. */
export function Problems({ problems, isSure }: ProblemsProps): ReactNode {
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
          <Line key={`${problem.kind} ${problem.subject}`} problem={problem} />
        ))}
      </ul>
    </Section>
  )
}

function Line({ problem }: { readonly problem: Problem }): ReactNode {
  const say = useWords(overviewWords)
  const { says, tone, icon, to, query } = kinds[problem.kind]
  const values = { subject: visible(problem.subject), count: problem.count }
  return (
    <li className={tone}>
      <Icon name={icon} />
      <bdi>{say(says, values)}</bdi>
      <span className="aside">
        {problem.since !== null && <Time at={problem.since} />}{' '}
        {problem.detail && <Text value={problem.detail} />}
      </span>
      <Link to={to} query={query?.(problem.subject)}>
        {say(`${says}Next`)}
      </Link>
    </li>
  )
}
