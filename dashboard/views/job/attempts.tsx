import type { ReactNode } from 'react'
import type { WireFoundJob } from '../../../src/http/client/index.ts'
import { Section } from '../../kit/page.tsx'
import { Badge, type BadgeProps } from '../../kit/state.tsx'
import { Code } from '../../kit/text/json.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { Link } from '../../shell/router.tsx'
import { jobWords } from '../../words/job.ts'
import { useFormat, useWords } from '../../words/language.tsx'

type Attempt = WireFoundJob['attempts'][number]

const looks: Readonly<Record<Attempt['outcome'], Pick<BadgeProps, 'tone' | 'icon'>>> = {
  failed: { tone: 'warn', icon: 'dead' },
  dead: { tone: 'bad', icon: 'dead' },
  lost: { tone: 'bad', icon: 'warning' },
}

/** Every attempt that failed or was lost, newest first: when, where, how long, and with which error. */
export function Attempts({ attempts }: { readonly attempts: readonly Attempt[] }): ReactNode {
  const say = useWords(jobWords)
  if (attempts.length === 0) return null
  return (
    <Section title={say('attempts')}>
      <ol className="card job-attempts" aria-label={say('attempts')}>
        {attempts
          .toSorted((a, b) => b.number - a.number)
          .map((attempt) => (
            <One key={attempt.number} attempt={attempt} />
          ))}
      </ol>
    </Section>
  )
}

function One({ attempt }: { readonly attempt: Attempt }): ReactNode {
  const say = useWords(jobWords)
  const format = useFormat()
  const { outcome, workerId, release, startedAt, endedAt, error, fingerprint } = attempt
  return (
    <li>
      <p className="job-attempt">
        <strong>{say('attemptNumber', { number: attempt.attempt })}</strong>
        <Badge {...looks[outcome]} title={say(`${outcome}Means`)}>
          {say(outcome)}
        </Badge>
        <Time at={endedAt} />
        {startedAt !== null && (
          <span className="aside">
            {say('ranFor', { span: format.span(Math.max(0, endedAt - startedAt)) })}
          </span>
        )}
        {workerId !== null && (
          <span className="aside">
            {say('worker')} <Text value={workerId} />
          </span>
        )}
        {release !== null && (
          <span className="aside">
            {say('release')} <Text value={release} />
          </span>
        )}
      </p>
      <p className="job-attempt-error">
        {error.name !== undefined && (
          <strong>
            <Text value={error.name} />{' '}
          </strong>
        )}
        <Text value={error.message} />{' '}
        <Link to="errors" query={{ group: fingerprint }}>
          {say('sameError')}
        </Link>
      </p>
      {error.stack !== undefined && (
        <details>
          <summary>{say('stack')}</summary>
          <Code text={error.stack} label={say('stackOf', { number: attempt.attempt })} />
        </details>
      )}
    </li>
  )
}
