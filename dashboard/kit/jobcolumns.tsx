import type { ReactNode } from 'react'
import type { WireJob } from '../../src/client/index.ts'
import { Link } from '../shell/router.tsx'
import type { Say } from '../words/catalogue.ts'
import type { jobsWords } from '../words/jobs.ts'
import { State } from './state.tsx'
import type { Column } from './table.tsx'
import { Text } from './text.tsx'
import { Time } from './time.tsx'

/** What a list says of each job. */
export function jobColumns(say: Say<typeof jobsWords>): readonly Column<WireJob>[] {
  return [
    {
      ...{ key: 'id', head: say('id') },
      cell: ({ id }) => (
        <Link to="job" query={{ id }} className="mono" title={id}>
          <Text value={id.length > 14 ? `${id.slice(0, 5)}…${id.slice(-7)}` : id} />
        </Link>
      ),
    },
    { key: 'kind', head: say('kind'), cell: ({ kind }) => <Text value={kind} /> },
    {
      ...{ key: 'queue', head: say('queue'), wideOnly: true },
      cell: ({ queue }) => (
        <Link to="queue" query={{ name: queue }}>
          <Text value={queue} />
        </Link>
      ),
    },
    { key: 'state', head: say('state'), cell: ({ state }) => <State name={state} /> },
    {
      ...{ key: 'attempt', head: say('attempt'), align: 'end', wideOnly: true },
      cell: ({ attempt, maxAttempts }) => say('attemptOf', { attempt, max: maxAttempts }),
    },
    { key: 'when', head: say('when'), cell: (job) => <When job={job} say={say} /> },
    { key: 'about', head: say('about'), grow: true, wideOnly: true, cell: (job) => <About job={job} /> },
  ]
}

/** The instant that matters in its state. */
function When({ job, say }: { readonly job: WireJob; readonly say: Say<typeof jobsWords> }): ReactNode {
  const [word, at] =
    job.finishedAt !== null
      ? (['ended', job.finishedAt] as const)
      : job.state === 'running'
        ? (['started', job.startedAt] as const)
        : job.state === 'scheduled'
          ? (['due', job.runAt] as const)
          : (['added', job.createdAt] as const)
  return (
    <>
      <span className="aside">{say(word)}</span> <Time at={at} />
    </>
  )
}

function About({ job: { error, tags } }: { readonly job: WireJob }): ReactNode {
  if (error !== null) return <Text value={error.message} cut />
  return <span className="aside">{<Text value={tags.join(', ')} cut />}</span>
}
