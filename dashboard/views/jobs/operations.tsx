import type { ReactNode } from 'react'
import type { WireBulkOperation } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Bar } from '../../kit/bar.tsx'
import { Section } from '../../kit/page.tsx'
import { State } from '../../kit/state.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { toast } from '../../kit/toast.tsx'
import { changed, useLive } from '../../live/queries.ts'
import { serverNow } from '../../live/server-clock.ts'
import { useClient } from '../../shell/session.ts'
import { jobsWords } from '../../words/jobs.ts'
import { useWords } from '../../words/language.tsx'

/** How long an ended operation is still shown. */
const shownMs = 10 * 60_000

/** Bulk operations under way, and those that have just ended. */
export function Operations(): ReactNode {
  const say = useWords(jobsWords)
  const client = useClient()
  const { data = [] } = useLive(['bulk'], () => client.jobs.bulkOperations({ limit: 5 }), { everyMs: 2_000 })
  const recent = data.filter(({ finishedAt }) => finishedAt === null || finishedAt > serverNow() - shownMs)
  if (recent.length === 0) return null
  return (
    <Section title={say('operations')}>
      <ul className="operations">
        {recent.map((operation) => (
          <Operation key={operation.id} operation={operation} />
        ))}
      </ul>
    </Section>
  )
}

function Operation({ operation }: { readonly operation: WireBulkOperation }): ReactNode {
  const say = useWords(jobsWords)
  const client = useClient()
  const { id, action, search, state, matched, done, skipped, startedAt, finishedAt, error } = operation
  const label = say('progress', { done, skipped })
  const stop = async () => {
    await client.jobs.cancelBulk(id).catch((thrown: Error) => toast(thrown.message, 'bad'))
    toast(say('stopped'))
    await changed('bulk', 'jobs')
  }
  return (
    <li>
      <State name={state} />
      <strong>{say(`${action}Operation`)}</strong>
      <Text value={search} mono cut />
      <Bar
        share={state === 'completed' ? 1 : matched === 0 ? 0 : (done + skipped) / matched}
        label={label}
        tone={state === 'failed' ? 'bad' : 'busy'}
      />
      <span className="aside">
        {label} · <Time at={finishedAt ?? startedAt} /> {error && <Text value={error.message} />}
      </span>
      {state === 'running' && (
        <Action scope="admin" onPress={() => void stop()}>
          {say('stop')}
        </Action>
      )}
    </li>
  )
}
