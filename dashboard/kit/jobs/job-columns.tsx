import type { ReactNode } from 'react'
import type { WireJob } from '../../../src/http/client/index.ts'
import { Link } from '../../shell/router.tsx'
import type { Say } from '../../words/catalogue.ts'
import type { jobsWords } from '../../words/jobs.ts'
import { State } from '../state.tsx'
import type { Column } from '../table.tsx'
import { ShortId } from '../text/short-id.tsx'
import { Text } from '../text/text.tsx'
import { Time } from '../text/time.tsx'

/** What a list says of each job. */
export function jobColumns(say: Say<typeof jobsWords>): readonly Column<WireJob>[] {
  return [
    {
      ...{ key: 'id', head: say('id') },
      cell: ({ id }) => (
        <Link to="job" query={{ id }}>
          <ShortId id={id} />
        </Link>
      ),
    },
    {
      ...{ key: 'kind', head: say('kind') },
      cell: ({ kind, error }) => (
        <>
          <Text value={kind} />
          {error !== null && (
            <span className="aside narrow-only">
              <Text value={error.message} cut />
            </span>
          )}
        </>
      ),
    },
    {
      ...{ key: 'queue', head: say('queue'), wideOnly: true },
      cell: ({ queue }) => (
        <Link to="queue" query={{ name: queue }}>
          <Text value={queue} />
        </Link>
      ),
    },
    {
      ...{ key: 'state', head: say('state') },
      cell: (job) => (
        <>
          <State name={job.state} />
          <span className="aside narrow-only">
            <Time at={momentOf(job)[1]} />
          </span>
        </>
      ),
    },
    {
      ...{ key: 'attempt', head: say('attempt'), align: 'end', wideOnly: true },
      cell: ({ attempt, maxAttempts }) => say('attemptOf', { attempt, max: maxAttempts }),
    },
    { key: 'when', head: say('when'), wideOnly: true, cell: (job) => <When job={job} say={say} /> },
    { key: 'about', head: say('about'), grow: true, wideOnly: true, cell: (job) => <About job={job} /> },
  ]
}

/** The instant that matters in its state, and what happened then. */
function momentOf(job: WireJob): readonly [word: 'ended' | 'started' | 'due' | 'added', at: number | null] {
  if (job.finishedAt !== null) return ['ended', job.finishedAt]
  if (job.state === 'running') return ['started', job.startedAt]
  return job.state === 'scheduled' ? ['due', job.runAt] : ['added', job.createdAt]
}

function When({ job, say }: { readonly job: WireJob; readonly say: Say<typeof jobsWords> }): ReactNode {
  const [word, at] = momentOf(job)
  return (
    <>
      <span className="aside roomy-only">{say(word)}</span> <Time at={at} />
    </>
  )
}

function About({ job: { error, tags } }: { readonly job: WireJob }): ReactNode {
  if (error !== null) return <Text value={error.message} cut />
  return <span className="aside">{<Text value={tags.join(', ')} cut />}</span>
}
