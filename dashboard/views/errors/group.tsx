import { type ReactNode, useState } from 'react'
import type { WireErrorGroup } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Confirm } from '../../kit/confirm.tsx'
import { Empty } from '../../kit/empty.tsx'
import { jobColumns } from '../../kit/jobs/job-columns.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Facts, Page, Section } from '../../kit/page.tsx'
import { Table } from '../../kit/table.tsx'
import { Code } from '../../kit/text/json.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { changed, useLive } from '../../live/queries.ts'
import { go, Link } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { errorsWords } from '../../words/errors.ts'
import { jobsWords } from '../../words/jobs.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { shellWords } from '../../words/shell.ts'
import { MatchingDialog } from '../jobs/bulk-dialog.tsx'
import { Operations } from '../jobs/operations.tsx'
import '../jobs/jobs.css'

/** How many jobs are tried before the rest. */
const canaryJobs = 5
const shownJobs = 20

/** One group of errors: what went wrong, in which jobs, and a retry of a few of them before the rest. */
export function OneGroup({ fingerprint }: { readonly fingerprint: string }): ReactNode {
  const say = useWords(errorsWords)
  const sayShell = useWords(shellWords)
  const client = useClient()
  // The query cache cannot hold `undefined`.
  const group = useLive(
    ['errors', 'one', fingerprint],
    async () => (await client.jobs.errorGroup(fingerprint)) ?? null,
  )
  // After a change of address, cached data may belong to another group.
  const found = group.data?.fingerprint === fingerprint ? group.data : null
  const name = found?.error.name ?? found?.error.code
  return (
    <Page
      title={name === undefined ? sayShell('errors') : visible(name)}
      lead={<Link to="errors">{say('allGroups')}</Link>}
      actions={found && <Retrying group={found} />}
    >
      <Loaded query={group}>
        {() =>
          found === null ? (
            <Empty icon="errors" title={say('missing')}>
              <p>{say('missingNext')}</p>
            </Empty>
          ) : (
            <Whole group={found} />
          )
        }
      </Loaded>
    </Page>
  )
}

function searchOf(fingerprint: string): string {
  return `error.group:${fingerprint}`
}

/** A canary of a few dead jobs, and all of them. */
function Retrying({ group }: { readonly group: WireErrorGroup }): ReactNode {
  const say = useWords(errorsWords)
  const client = useClient()
  const [asked, ask] = useState<'canary' | 'group'>()
  const close = () => ask(undefined)
  const search = `state:dead ${searchOf(group.fingerprint)}`
  const retryCanary = async () => {
    await client.jobs.bulk({ action: 'retry', search, limit: canaryJobs })
    toast(say('canaryBegun'))
    await changed('bulk', 'jobs', 'errors', 'queues', 'overview')
  }
  return (
    <>
      <Action scope="admin" look="main" onPress={() => ask('canary')}>
        {say('canary', { count: canaryJobs })}
      </Action>
      <Action scope="admin" onPress={() => ask('group')}>
        {say('retryGroup')}
      </Action>
      {asked === 'canary' && (
        <Confirm
          title={say('canaryAsk', { count: canaryJobs })}
          act={say('canaryAct')}
          onConfirm={retryCanary}
          onClose={close}
        >
          <p>{say('canaryMeans')}</p>
        </Confirm>
      )}
      {asked === 'group' && <MatchingDialog act="retry" search={search} filtered="dead" onClose={close} />}
    </>
  )
}

function Whole({ group }: { readonly group: WireErrorGroup }): ReactNode {
  const say = useWords(errorsWords)
  const format = useFormat()
  const { fingerprint, kind, attemptCount, firstSeenAt, lastSeenAt, releases, error } = group
  return (
    <>
      <div className="card">
        <p className="errors-text">
          <Text value={error.message} />
        </p>
        <Facts
          items={[
            [
              say('kind'),
              <Link key="kind" to="jobs" query={{ kind }}>
                <Text value={kind} />
              </Link>,
            ],
            [say('attempts'), format.number(attemptCount)],
            [say('lastSeen'), <Time key="last" at={lastSeenAt} />],
            [say('firstSeen'), <Time key="first" at={firstSeenAt} />],
            releases.length === 0
              ? undefined
              : [say('releases'), <Text key="releases" value={releases.join(', ')} />],
            error.code === undefined ? undefined : [say('code'), <Text key="code" value={error.code} mono />],
            [say('fingerprint'), <Text key="fingerprint" value={fingerprint} mono />],
          ]}
        />
      </div>
      {error.stack !== undefined && (
        <Section title={say('stack')}>
          <Code text={error.stack} label={say('stack')} />
        </Section>
      )}
      <Operations />
      <Jobs group={group} />
    </>
  )
}

/** Jobs whose last error is of the group, newest first; those that failed earlier, too, as samples. */
function Jobs({ group: { fingerprint, sampleJobs } }: { readonly group: WireErrorGroup }): ReactNode {
  const say = useWords(errorsWords)
  const sayJobs = useWords(jobsWords)
  const client = useClient()
  const asked = { search: searchOf(fingerprint), limit: shownJobs }
  const jobs = useLive(['jobs', asked], () => client.jobs.list(asked))
  return (
    <Section
      title={say('jobs')}
      actions={
        <Link to="jobs" query={{ search: asked.search }}>
          {say('allJobs')}
        </Link>
      }
    >
      <Loaded query={jobs}>
        {({ items }) => (
          <Table
            label={say('jobs')}
            rows={items}
            columns={jobColumns(sayJobs)}
            rowKey={({ id }) => id}
            onOpen={({ id }) => go('job', { id })}
            stale={jobs.isPlaceholderData}
            empty={<p className="aside">{say('noJobs')}</p>}
          />
        )}
      </Loaded>
      {sampleJobs.length > 0 && (
        <p className="errors-samples">
          <span className="aside">{say('samples')}</span>
          {sampleJobs.map((id) => (
            <Link key={id} to="job" query={{ id }} className="mono">
              <Text value={id} />
            </Link>
          ))}
        </p>
      )}
    </Section>
  )
}
