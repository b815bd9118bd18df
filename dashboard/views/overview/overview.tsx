import type { ReactNode } from 'react'
import { showCount, type WireOverview } from '../../../src/http/client/index.ts'
import { Empty } from '../../kit/empty.tsx'
import { Charts } from '../../kit/jobs/charts.tsx'
import { Counting } from '../../kit/jobs/counting.tsx'
import { LastActive } from '../../kit/jobs/last-active.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Page, Section } from '../../kit/page.tsx'
import { Badge, State } from '../../kit/state.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { useCurl } from '../../kit/text/curl.ts'
import { Code } from '../../kit/text/json.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { go, Link } from '../../shell/router.tsx'
import { useSignedIn } from '../../shell/session.ts'
import { kitWords } from '../../words/kit.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { overviewWords } from '../../words/overview.ts'
import { shellWords } from '../../words/shell.ts'
import './overview.css'
import { useLiveness } from '../../live/connection.ts'
import { type LiveOverview, useOverview } from '../../live/overview.ts'
import type { LiveQueue } from '../../live/queues.ts'
import { useActiveQueues, withIdleQueues } from '../../live/series.ts'
import { Problems } from './problems.tsx'

/** Attempts that ended within the last whole minute. */
function endedPerMinute({ at, history }: Pick<WireOverview, 'at' | 'history'>): number {
  const minute = Math.floor(at / history.stepMs - 1) * history.stepMs
  const last = history.samples.find((sample) => sample.at === minute)
  return last === undefined ? 0 : last.completed + last.retried + last.dead
}

/** How everything stands: problems first, then numbers, then the last hour, then the queues. */
export default function OverviewView(): ReactNode {
  const say = useWords(overviewWords)
  const sayShell = useWords(shellWords)
  const { me } = useSignedIn()
  const { lostAt } = useLiveness()
  const active = useActiveQueues()
  return (
    <Page title={sayShell('overview')} lead={say('lead', me.server)}>
      <Loaded query={useOverview()}>
        {(overview) => (
          <>
            <Problems
              problems={overview.problems}
              queues={overview.queues}
              isSure={!overview.counting && lostAt === null}
            />
            {overview.queues.length === 0 && active.size === 0 && !overview.counting ? (
              <FirstJob />
            ) : (
              <Standing overview={overview} active={active} />
            )}
            <Health readiness={overview.readiness} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

function Standing({
  overview,
  active,
}: {
  readonly overview: LiveOverview
  readonly active: ReadonlyMap<string, number>
}): ReactNode {
  const say = useWords(overviewWords)
  const { counting = false } = overview
  const queues = withIdleQueues(overview.queues, active)
  const isKnown = queues.length > 0
  return (
    <>
      <Section title={say('jobsNow')} actions={counting && isKnown && <Counting />}>
        {isKnown ? <Figures overview={overview} /> : <Counting />}
      </Section>
      <Charts />
      {isKnown && <Queues queues={queues} active={active} />}
    </>
  )
}

const states = ['ready', 'running', 'scheduled', 'waiting', 'dead'] as const

function Figures({ overview }: { readonly overview: LiveOverview }): ReactNode {
  const say = useWords(overviewWords)
  const sayKit = useWords(kitWords)
  const format = useFormat()
  return (
    <div className="figures">
      {states.map((state) => {
        const count = overview.queues.reduce((sum, queue) => sum + queue[state], 0)
        const approximate = overview.queues.some((queue) => showCount(queue, queue[state]).startsWith('~'))
        const names = [state === 'dead' && 'bad', count === 0 && 'none'].filter(Boolean).join(' ')
        return (
          <Link key={state} to="jobs" query={{ state }} className={names}>
            <b>{showCount({ approximate }, count, format.compact)}</b>
            <State name={state} />
            <span className="hidden">{sayKit(state)}</span>
          </Link>
        )
      })}
      <div>
        <b>{format.compact(endedPerMinute(overview))}</b>
        <span className="aside">{say('perMinute')}</span>
      </div>
    </div>
  )
}

const mostQueues = 10

function Queues({
  queues,
  active,
}: {
  readonly queues: readonly LiveQueue[]
  readonly active: ReadonlyMap<string, number>
}): ReactNode {
  const say = useWords(overviewWords)
  const sayKit = useWords(kitWords)
  const format = useFormat()
  const count = (key: 'ready' | 'running' | 'scheduled' | 'dead'): Column<LiveQueue> => ({
    key,
    head: sayKit(key),
    align: 'end',
    wideOnly: key === 'scheduled',
    cell: (row) => (
      <span className={row[key] === 0 ? 'aside' : undefined}>{showCount(row, row[key], format.compact)}</span>
    ),
  })
  const columns: readonly Column<LiveQueue>[] = [
    {
      ...{ key: 'queue', head: say('queue'), grow: true },
      cell: ({ queue, paused }) => (
        <span className="cell-name">
          <Link to="queue" query={{ name: queue }}>
            <Text value={queue} cut />
          </Link>
          {paused && <State name="paused" />}
        </span>
      ),
    },
    ...(['ready', 'running', 'scheduled', 'dead'] as const).map(count),
    {
      ...{ key: 'oldest', head: say('oldest'), align: 'end' as const },
      cell: ({ oldestReadyAt }) =>
        oldestReadyAt === null ? <span className="aside">–</span> : <Time at={oldestReadyAt} />,
    },
    {
      ...{ key: 'active', head: say('lastActive'), align: 'end' as const, wideOnly: true },
      cell: (row) => <LastActive queue={row} active={active} />,
    },
  ]
  const lastAt = ({ queue }: LiveQueue) => active.get(queue) ?? 0
  const busiest = queues
    .toSorted((a, b) => b.ready + b.running - a.ready - a.running || lastAt(b) - lastAt(a))
    .slice(0, mostQueues)
  return (
    <Section title={say('queues')} actions={<Link to="queues">{say('allQueues')}</Link>}>
      <Table
        label={say('queues')}
        rows={busiest}
        columns={columns}
        rowKey={({ queue }) => queue}
        onOpen={({ queue }) => go('queue', { name: queue })}
        empty={null}
      />
    </Section>
  )
}

function FirstJob(): ReactNode {
  const say = useWords(overviewWords)
  const command = useCurl('v1/jobs', { kind: 'hello', payload: { to: 'world' } })
  return (
    <Section title={say('jobsNow')}>
      <Empty icon="jobs" title={say('noQueues')}>
        <p>{say('noQueuesNext')}</p>
        <Code text={command} label={say('noQueuesNext')} />
      </Empty>
    </Section>
  )
}

function Health({ readiness }: { readonly readiness: WireOverview['readiness'] }): ReactNode {
  const say = useWords(overviewWords)
  const failed = readiness.checks.filter(({ ok }) => !ok)
  const passed = readiness.checks.length - failed.length
  return (
    <Section title={say('health')}>
      <div className="checks">
        {failed.map(({ name, detail }) => (
          <Badge key={name} tone="bad" icon="dead" title={detail}>
            <Text value={name} />
          </Badge>
        ))}
        <Badge tone="good" icon="completed" title={readiness.checks.map(({ name }) => name).join('\n')}>
          {say('checksPass', { count: passed })}
        </Badge>
      </div>
    </Section>
  )
}
