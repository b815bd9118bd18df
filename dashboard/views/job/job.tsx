import type { ReactNode } from 'react'
import type { WireFoundJob } from '../../../src/http/client/index.ts'
import { Empty } from '../../kit/empty.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Facts, Page, Section } from '../../kit/page.tsx'
import { Badge, State } from '../../kit/state.tsx'
import { Copy } from '../../kit/text/copy.tsx'
import { Code, Json } from '../../kit/text/json.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Span } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { useLive } from '../../live/queries.ts'
import { Link, usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { jobWords } from '../../words/job.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { shellWords } from '../../words/shell.ts'
import { Attempts } from './attempts.tsx'
import { Graph } from './graph.tsx'
import './job.css'
import { JobActs } from './job-acts.tsx'
import { Logs } from './logs.tsx'
import { Timeline } from './timeline.tsx'

/** One job: when what happened to it, what it carries and came to, what it waits for and what it said. */
export default function JobView(): ReactNode {
  const say = useWords(jobWords)
  const sayShell = useWords(shellWords)
  const client = useClient()
  const id = usePlace().query.id ?? ''
  // The query cache cannot hold `undefined`.
  const job = useLive(['job', id], async () => (await client.jobs.find(id)) ?? null, {
    everyMs: 2_000,
    enabled: id !== '',
  })
  const found = job.data ?? undefined
  return (
    <Page
      title={found === undefined ? sayShell('job') : visible(found.kind)}
      lead={<Link to="jobs">{say('allJobs')}</Link>}
      actions={found && <JobActs job={found} />}
    >
      {id === '' ? (
        <Missing />
      ) : (
        <Loaded query={job}>{(one) => (one === null ? <Missing /> : <Whole job={one} />)}</Loaded>
      )}
    </Page>
  )
}

function Missing(): ReactNode {
  const say = useWords(jobWords)
  return (
    <Empty icon="jobs" title={say('missing')}>
      <p>{say('missingNext')}</p>
    </Empty>
  )
}

function Whole({ job }: { readonly job: WireFoundJob }): ReactNode {
  const say = useWords(jobWords)
  return (
    <>
      <div className="card">
        <About job={job} />
        {job.cancelRequested && (
          <Badge tone="warn" icon="cancelled">
            {say('cancelAsked')}
          </Badge>
        )}
        {job.cancelIgnored && (
          <Badge tone="warn" icon="warning">
            {say('cancelIgnored')}
          </Badge>
        )}
      </div>
      <Timeline job={job} />
      <Graph job={job} />
      {job.error !== null && <Failure error={job.error} />}
      <Attempts attempts={job.attempts} />
      <Section title={say('payload')}>
        <Json value={job.payload} label={say('payload')} />
      </Section>
      {job.finishedAt !== null && (
        <Section title={say('result')}>
          {job.result === null ? (
            <p className="aside">{say('noResult')}</p>
          ) : (
            <Json value={job.result} label={say('result')} />
          )}
        </Section>
      )}
      <Logs id={job.id} />
    </>
  )
}

function About({ job }: { readonly job: WireFoundJob }): ReactNode {
  const say = useWords(jobWords)
  const format = useFormat()
  const text = (value: string | null) => value !== null && <Text value={value} />
  const { lock, limitKey, schedule, snoozeCount } = job
  return (
    <Facts
      items={[
        [say('state'), <State key="state" name={job.state} />],
        [
          say('id'),
          <span key="id" className="mono">
            <Text value={job.id} /> <Copy text={job.id} />
          </span>,
        ],
        [
          say('queue'),
          <Link key="queue" to="queue" query={{ name: job.queue }}>
            <Text value={job.queue} />
          </Link>,
        ],
        [say('attempt'), say('attemptOf', { attempt: job.attempt, max: job.maxAttempts })],
        job.priority === 0 ? undefined : [say('priority'), format.number(job.priority)],
        job.uniqueKey === null ? undefined : [say('uniqueKey'), text(job.uniqueKey)],
        limitKey ? [say('limitKey'), text(limitKey)] : undefined,
        lock
          ? [
              say('lock'),
              <Link key="lock" to="locks" query={{ operation: lock.operation, resource: lock.resource }}>
                <Text value={`${lock.operation} ${lock.resource}`} />
              </Link>,
            ]
          : undefined,
        job.tags.length === 0 ? undefined : [say('tags'), text(job.tags.join(', '))],
        schedule === null
          ? undefined
          : [
              say('schedule'),
              <Link key="schedule" to="schedules" query={{ name: schedule.name }}>
                <Text value={schedule.name} />
              </Link>,
            ],
        job.workerId === null
          ? undefined
          : [
              say('worker'),
              <Link key="worker" to="workers" query={{ id: job.workerId }}>
                <Text value={job.workerId} />
              </Link>,
            ],
        job.timeoutMs === null ? undefined : [say('timeout'), <Span key="timeout" ms={job.timeoutMs} />],
        snoozeCount > 0 ? [say('snoozed'), say('times', { count: snoozeCount })] : undefined,
      ]}
    />
  )
}

function Failure({ error }: { readonly error: NonNullable<WireFoundJob['error']> }): ReactNode {
  const say = useWords(jobWords)
  const { name, message, code, stack, details } = error
  return (
    <Section title={say('error')}>
      <div className="card">
        <p>
          {code !== undefined && (
            <>
              <Badge tone="bad" icon="dead">
                <Text value={code} cut />
              </Badge>{' '}
            </>
          )}
          {name !== undefined && (
            <strong>
              <Text value={name} />{' '}
            </strong>
          )}
          <Text value={message} />
        </p>
        {details !== undefined && (
          <Code text={JSON.stringify(details, null, 2)} label={say('errorDetails')} />
        )}
        {stack !== undefined && <Code text={stack} label={say('stack')} />}
      </div>
    </Section>
  )
}
