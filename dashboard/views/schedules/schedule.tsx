import type { ReactNode } from 'react'
import type { WireSchedule } from '../../../src/http/client/index.ts'
import { Empty } from '../../kit/empty.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Facts, Page, Section } from '../../kit/page.tsx'
import { Json } from '../../kit/text/json.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Span, Time } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { useLive } from '../../live/queries.ts'
import { Link } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { schedulesWords } from '../../words/schedules.ts'
import { ScheduleActs } from './schedule-acts.tsx'
import { NextRun, Standing } from './schedule-state.tsx'
import { When } from './when.tsx'

/** One schedule: when it runs, when it ran, and the job that it adds. */
export function ScheduleView({ name }: { readonly name: string }): ReactNode {
  const say = useWords(schedulesWords)
  const client = useClient()
  // The query cache cannot hold `undefined`.
  const schedule = useLive(
    ['schedules', 'one', name],
    async () => (await client.jobs.schedules.find(name)) ?? null,
    { everyMs: 2_000 },
  )
  return (
    <Page
      title={visible(name)}
      lead={<Link to="schedules">{say('allSchedules')}</Link>}
      actions={schedule.data && <ScheduleActs schedule={schedule.data} />}
    >
      <Loaded query={schedule}>
        {(one) =>
          one === null ? (
            <Empty icon="schedules" title={say('missing')}>
              <p>{say('missingNext')}</p>
            </Empty>
          ) : (
            <>
              <Times schedule={one} />
              <ItsJob job={one.job} />
            </>
          )
        }
      </Loaded>
    </Page>
  )
}

function Times({ schedule }: { readonly schedule: WireSchedule }): ReactNode {
  const say = useWords(schedulesWords)
  const { startAt, endAt, lastSlotAt, lastFiredAt, createdAt, catchUp } = schedule
  return (
    <div className="card">
      <Facts
        items={[
          [say('status'), <Standing key="status" schedule={schedule} />],
          [say('when'), <When key="when" schedule={schedule} />],
          [say('next'), <NextRun key="next" schedule={schedule} />],
          [say('last'), <Time key="last" at={lastFiredAt} />],
          lastSlotAt === null ? undefined : [say('lastSlot'), <Time key="slot" at={lastSlotAt} />],
          [say('catchUp'), say(`${catchUp}_`)],
          startAt === null ? undefined : [say('startAt'), <Time key="start" at={startAt} />],
          endAt === null ? undefined : [say('endAt'), <Time key="end" at={endAt} />],
          [say('created'), <Time key="created" at={createdAt} />],
        ]}
      />
    </div>
  )
}

function ItsJob({ job }: { readonly job: WireSchedule['job'] }): ReactNode {
  const say = useWords(schedulesWords)
  const format = useFormat()
  const { kind, queue, priority, maxAttempts, uniqueKey, timeoutMs, tags } = job
  return (
    <Section
      title={say('job')}
      actions={
        <Link to="jobs" query={{ queue, kind }}>
          {say('itsJobs')}
        </Link>
      }
    >
      <div className="card schedules-job">
        <Facts
          items={[
            [say('kind'), <Text key="kind" value={kind} />],
            [
              say('queue'),
              <Link key="queue" to="queue" query={{ name: queue }}>
                <Text value={queue} />
              </Link>,
            ],
            [say('maxAttempts'), format.number(maxAttempts)],
            priority === 0 ? undefined : [say('priority'), format.number(priority)],
            uniqueKey === null ? undefined : [say('uniqueKey'), <Text key="unique" value={uniqueKey} />],
            timeoutMs === null ? undefined : [say('timeout'), <Span key="timeout" ms={timeoutMs} />],
            tags.length === 0 ? undefined : [say('tags'), <Text key="tags" value={tags.join(', ')} />],
          ]}
        />
        <h3>{say('payload')}</h3>
        <Json value={job.payload} label={say('payload')} />
      </div>
    </Section>
  )
}
