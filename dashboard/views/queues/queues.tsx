import { type ReactNode, useState } from 'react'
import { showCount } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Input } from '../../kit/field.tsx'
import { Counting } from '../../kit/jobs/counting.tsx'
import { LastActive } from '../../kit/jobs/last-active.tsx'
import { LimitsText } from '../../kit/jobs/queue-limits.tsx'
import { Switching } from '../../kit/jobs/queue-switching.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Page } from '../../kit/page.tsx'
import { State } from '../../kit/state.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { type LiveQueue, useQueues } from '../../live/queues.ts'
import { useActiveQueues, withIdleQueues } from '../../live/series.ts'
import { go, Link, useFilter } from '../../shell/router.tsx'
import { kitWords } from '../../words/kit.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { queuesWords } from '../../words/queues.ts'
import { shellWords } from '../../words/shell.ts'

/** Every queue, with how many of its jobs are in which state; some can be paused and resumed together. */
export default function QueuesView(): ReactNode {
  const say = useWords(queuesWords)
  const sayShell = useWords(shellWords)
  const [filter, setFilter] = useFilter('filter')
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [act, setAct] = useState<'pause' | 'resume'>()
  const queues = useQueues()
  const active = useActiveQueues()
  const columns = useColumns(active)
  const words = filter.toLowerCase()
  return (
    <Page title={sayShell('queues')} lead={say('lead')}>
      <div className="toolbar">
        <Input
          bare
          live
          type="search"
          label={say('filter')}
          placeholder={say('filter')}
          value={filter}
          onChange={setFilter}
        />
        {(['pause', 'resume'] as const).map((one) => (
          <Action
            key={one}
            scope="admin"
            disabled={selected.size === 0}
            reason={say('selectFirst')}
            onPress={() => setAct(one)}
          >
            {say(one)}
          </Action>
        ))}
      </div>
      <Loaded query={queues}>
        {({ items, counting = false }) => {
          const all = withIdleQueues(items, active)
          return (
            <Table
              label={sayShell('queues')}
              stale={counting}
              // What is selected stays in sight, whatever the filter.
              rows={all.filter(({ queue }) => selected.has(queue) || queue.toLowerCase().includes(words))}
              columns={columns}
              rowKey={({ queue }) => queue}
              selection={{ selected, onChange: setSelected }}
              onOpen={({ queue }) => go('queue', { name: queue })}
              empty={
                counting ? (
                  <Counting />
                ) : (
                  <Empty icon="queues" title={say(all.length === 0 ? 'none' : 'noMatch')}>
                    <p>{say(all.length === 0 ? 'noneNext' : 'noMatchNext')}</p>
                  </Empty>
                )
              }
            />
          )
        }}
      </Loaded>
      {act && (
        <Switching
          act={act}
          queues={[...selected]}
          onClose={() => setAct(undefined)}
          onDone={() => setSelected(new Set())}
        />
      )}
    </Page>
  )
}

const states = ['ready', 'running', 'scheduled', 'waiting', 'dead'] as const

function useColumns(active: ReadonlyMap<string, number>): readonly Column<LiveQueue>[] {
  const say = useWords(queuesWords)
  const sayKit = useWords(kitWords)
  const format = useFormat()
  return [
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
    ...states.map(
      (state): Column<LiveQueue> => ({
        ...{ key: state, head: sayKit(state), align: 'end' },
        wideOnly: state === 'scheduled',
        roomyOnly: state === 'waiting',
        cell: (row) =>
          row[state] === 0 ? (
            <span className="aside">0</span>
          ) : (
            <Link to="jobs" query={{ queue: row.queue, state }}>
              {showCount(row, row[state], format.compact)}
            </Link>
          ),
      }),
    ),
    {
      ...{ key: 'oldest', head: say('oldest'), align: 'end', wideOnly: true },
      cell: ({ oldestReadyAt }) =>
        oldestReadyAt === null ? <span className="aside">–</span> : <Time at={oldestReadyAt} />,
    },
    {
      ...{ key: 'active', head: say('lastActive'), align: 'end', wideOnly: true },
      cell: (queue) => <LastActive queue={queue} active={active} />,
    },
    {
      ...{ key: 'limits', head: say('limits'), wideOnly: true, wrap: true },
      cell: ({ limits }) => <LimitsText limits={limits ?? null} />,
    },
  ]
}
