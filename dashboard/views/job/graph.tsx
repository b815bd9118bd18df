import type { ReactNode } from 'react'
import type { WireFoundJob } from '../../../src/http/client/index.ts'
import { Icon } from '../../kit/icon.tsx'
import { Section } from '../../kit/page.tsx'
import { State } from '../../kit/state.tsx'
import { ShortId } from '../../kit/text/short-id.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Link } from '../../shell/router.tsx'
import { jobWords } from '../../words/job.ts'
import { useWords } from '../../words/language.tsx'

type Related = WireFoundJob['dependencies'][number]

/** What a job waits for, and what waits for it; nothing where there is neither. */
export function Graph({ job }: { readonly job: WireFoundJob }): ReactNode {
  const say = useWords(jobWords)
  const { dependencies = [], dependents = [] } = job
  if (dependencies.length === 0 && dependents.length === 0) return null
  return (
    <Section title={say('graph')}>
      <div className="card job-graph">
        <Side title={say('dependencies')} jobs={dependencies} />
        <Arrow />
        <div>
          <h3>{say('thisJob')}</h3>
          <p>
            <State name={job.state} /> <Text value={job.kind} />
          </p>
        </div>
        <Arrow />
        <Side title={say('dependents')} jobs={dependents} />
      </div>
    </Section>
  )
}

function Arrow(): ReactNode {
  return (
    <span className="arrow" aria-hidden="true">
      <Icon name="next" />
    </span>
  )
}

function Side({ title, jobs }: { readonly title: string; readonly jobs: readonly Related[] }): ReactNode {
  const say = useWords(jobWords)
  return (
    <div>
      <h3>{title}</h3>
      {jobs.length === 0 && <span className="aside">{say('nobody')}</span>}
      <ul>
        {jobs.map(({ id, state }) => (
          <li key={id}>
            {state === null ? <span className="aside">{say('gone')}</span> : <State name={state} />}{' '}
            <Link to="job" query={{ id }}>
              <ShortId id={id} />
            </Link>
          </li>
        ))}
      </ul>
    </div>
  )
}
