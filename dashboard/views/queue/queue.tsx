import { type ReactNode, useState } from 'react'
import { showCount, type WireQueueStats } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Confirm } from '../../kit/confirm.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Charts } from '../../kit/jobs/charts.tsx'
import { Counting } from '../../kit/jobs/counting.tsx'
import { LookingFurther } from '../../kit/jobs/further.tsx'
import { jobColumns } from '../../kit/jobs/job-columns.tsx'
import { LimitsText } from '../../kit/jobs/queue-limits.tsx'
import { Switching } from '../../kit/jobs/queue-switching.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Facts, Page, Section } from '../../kit/page.tsx'
import { State } from '../../kit/state.tsx'
import { Table } from '../../kit/table.tsx'
import { Time } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { useFurther } from '../../live/further.ts'
import { changed, useLive } from '../../live/queries.ts'
import { useQueues } from '../../live/queues.ts'
import { go, Link, usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { jobsWords } from '../../words/jobs.ts'
import { kitWords } from '../../words/kit.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { queuesWords } from '../../words/queues.ts'
import { LimitsForm } from './limits-form.tsx'
import './queue.css'

const states = ['ready', 'running', 'scheduled', 'waiting', 'dead'] as const

/** One queue: how it stands, its limits, its newest jobs, and what can be done with it. */
export default function QueueView(): ReactNode {
  const say = useWords(queuesWords)
  const name = usePlace().query.name ?? ''
  const queues = useQueues()
  const queue = queues.data?.items.find((one) => one.queue === name)
  return (
    <Page
      title={visible(name)}
      lead={<Link to="queues">{say('allQueues')}</Link>}
      actions={queue && <Acts queue={queue} />}
    >
      <Loaded query={queues}>
        {({ counting }) => {
          if (queue !== undefined) return <Standing queue={queue} />
          if (counting) return <Counting />
          return (
            <Empty icon="queues" title={say('unknown')}>
              <p>{say('unknownNext')}</p>
            </Empty>
          )
        }}
      </Loaded>
      <Charts queue={name} />
      <Newest queue={name} />
    </Page>
  )
}

function Standing({ queue }: { readonly queue: WireQueueStats }): ReactNode {
  const say = useWords(queuesWords)
  const sayKit = useWords(kitWords)
  const format = useFormat()
  return (
    <div className="card queue-standing">
      <Facts
        items={[
          queue.paused ? [sayKit('paused'), <State key="paused" name="paused" />] : undefined,
          ...states.map(
            (state) =>
              [
                sayKit(state),
                <Link key={state} to="jobs" query={{ queue: queue.queue, state }}>
                  {showCount(queue, queue[state], format.number)}
                </Link>,
              ] as const,
          ),
          [
            say('oldest'),
            queue.oldestReadyAt === null ? '–' : <Time key="oldest" at={queue.oldestReadyAt} />,
          ],
          [say('limits'), <LimitsText key="limits" limits={queue.limits ?? null} />],
        ]}
      />
    </div>
  )
}

type Asked = 'pause' | 'resume' | 'limits' | 'retryDead'

function Acts({ queue }: { readonly queue: WireQueueStats }): ReactNode {
  const say = useWords(queuesWords)
  const [asked, ask] = useState<Asked>()
  const close = () => ask(undefined)
  const turn = queue.paused ? 'resume' : 'pause'
  return (
    <>
      {queue.dead > 0 && (
        <Action scope="admin" onPress={() => ask('retryDead')}>
          {say('retryDead')}
        </Action>
      )}
      <Action scope="admin" onPress={() => ask('limits')}>
        {say('setLimits')}
      </Action>
      <Action scope="admin" look={queue.paused ? 'main' : 'plain'} onPress={() => ask(turn)}>
        {say(turn)}
      </Action>
      {(asked === 'pause' || asked === 'resume') && (
        <Switching act={asked} queues={[queue.queue]} onClose={close} />
      )}
      {asked === 'limits' && <LimitsForm queue={queue.queue} limits={queue.limits ?? null} onClose={close} />}
      {asked === 'retryDead' && <RetryDead queue={queue} onClose={close} />}
    </>
  )
}

function RetryDead({
  queue: line,
  onClose,
}: {
  readonly queue: WireQueueStats
  readonly onClose: () => void
}): ReactNode {
  const say = useWords(queuesWords)
  const format = useFormat()
  const client = useClient()
  const { queue, dead } = line
  // With "~" the count is a text, whose plural is that of many.
  const count = line.approximate ? showCount(line, dead, format.number) : dead
  const confirm = async () => {
    const { retried } = await client.jobs.retryDead({ queue })
    toast(say('retriedSome', { count: retried }))
    await changed('queues', 'jobs', 'overview', 'audit')
  }
  return (
    <Confirm
      title={say('retryDeadSome', { count })}
      act={say('retryDead')}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>{say('retryDeadMeans')}</p>
    </Confirm>
  )
}

const newestCount = 20

function Newest({ queue }: { readonly queue: string }): ReactNode {
  const say = useWords(queuesWords)
  const sayJobs = useWords(jobsWords)
  const client = useClient()
  const asked = { queue, limit: newestCount }
  const jobs = useLive(['jobs', 'newest', queue], () => client.jobs.list(asked), { enabled: queue !== '' })
  const further = useFurther(asked, jobs.isPlaceholderData ? undefined : jobs.data)
  return (
    <Section
      title={say('newest')}
      actions={
        <Link to="jobs" query={{ queue }}>
          {say('allJobs')}
        </Link>
      }
    >
      <Loaded query={jobs}>
        {(answer) => {
          const { items } = further.page ?? answer
          const isSure = further.walked === undefined
          return (
            <>
              <Table
                label={say('newest')}
                rows={items}
                columns={jobColumns(sayJobs).filter(({ key }) => key !== 'queue')}
                rowKey={({ id }) => id}
                onOpen={({ id }) => go('job', { id })}
                empty={
                  <Empty icon="jobs" title={say(isSure ? 'noJobs' : 'noneAmongNewest')}>
                    {isSure && <p>{say('noJobsNext')}</p>}
                  </Empty>
                }
              />
              <LookingFurther further={further} found={items.length} />
            </>
          )
        }}
      </Loaded>
    </Section>
  )
}
