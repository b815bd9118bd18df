import type { ReactNode } from 'react'
import type { WireWorker } from '../../../src/http/client/index.ts'
import { Button } from '../../kit/button.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Input, Select } from '../../kit/field.tsx'
import { Growing } from '../../kit/growing.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Page } from '../../kit/page.tsx'
import { Pager } from '../../kit/pager.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Code } from '../../kit/text/json.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { useWorkers } from '../../live/workers.ts'
import { go, Link, useFilter, usePlace } from '../../shell/router.tsx'
import { useWords } from '../../words/language.tsx'
import { shellWords } from '../../words/shell.ts'
import { workersWords } from '../../words/workers.ts'
import { Busy, Place, RunsNow, WorkerState } from './parts.tsx'
import { OneWorker } from './worker.tsx'
import './workers.css'

const states = ['running', 'quiet', 'stopping', 'gone'] as const
const filters = ['queue', 'kind', 'host', 'release'] as const
/** The server lists workers by id; here those who live are first, so this many are asked for at once. */
const askedWorkers = 500
const shownWorkers = 50

/** The workers of all processes; `?id=` opens one. */
export default function WorkersView(): ReactNode {
  const { id } = usePlace().query
  return id ? <OneWorker id={id} /> : <AllWorkers />
}

function AllWorkers(): ReactNode {
  const say = useWords(workersWords)
  const sayShell = useWords(shellWords)
  const { query } = usePlace()
  const state = states.find((one) => one === query.state)
  const chosen = Object.fromEntries(filters.flatMap((name) => (query[name] ? [[name, query[name]]] : [])))
  const asked = {
    limit: askedWorkers,
    ...chosen,
    ...(state && { state }),
    ...(query.cursor && { cursor: query.cursor }),
  }
  const workers = useWorkers(asked)
  const columns = useColumns()
  const isFiltered = state !== undefined || Object.keys(chosen).length > 0
  return (
    <Page title={sayShell('workers')} lead={say('lead')}>
      <Toolbar isFiltered={isFiltered} />
      <Loaded query={workers}>
        {({ items, cursor }) => (
          <>
            <Growing items={items} step={shownWorkers}>
              {(rows) => (
                <Table
                  label={sayShell('workers')}
                  rows={rows}
                  columns={columns}
                  rowKey={({ id }) => id}
                  onOpen={({ id }) => go('workers', { id })}
                  stale={workers.isPlaceholderData}
                  empty={<Nothing isFiltered={isFiltered} />}
                />
              )}
            </Growing>
            {items.length > 0 && <Pager next={cursor}>{say('shown', countsOf(items))}</Pager>}
          </>
        )}
      </Loaded>
    </Page>
  )
}

function countsOf(workers: readonly WireWorker[]) {
  const goneCount = workers.filter(({ state }) => state === 'gone').length
  return { live: workers.length - goneCount, gone: goneCount }
}

function Toolbar({ isFiltered }: { readonly isFiltered: boolean }): ReactNode {
  const say = useWords(workersWords)
  const [state, setState] = useFilter('state')
  return (
    <div className="toolbar">
      <Select
        bare
        label={say('state')}
        value={states.find((one) => one === state) ?? ''}
        options={[['', say('anyState')], ...states.map((one) => [one, say(one)] as const)]}
        onChange={setState}
      />
      {filters.map((name) => (
        <Filter key={name} name={name} />
      ))}
      {isFiltered && (
        <Button look="quiet" icon="dead" onPress={() => go('workers')}>
          {say('clear')}
        </Button>
      )}
    </div>
  )
}

function Filter({ name }: { readonly name: (typeof filters)[number] }): ReactNode {
  const say = useWords(workersWords)
  const [value, set] = useFilter(name)
  return (
    <Input
      bare
      type="search"
      label={say(name)}
      placeholder={say(name)}
      value={value}
      onChange={(text) => set(text.trim())}
    />
  )
}

const snippet = `const worker = box.jobs.worker({
  queues: ['mail'],
  handlers: { mail: (job) => send(job.payload) },
})
await worker.start()`

function Nothing({ isFiltered }: { readonly isFiltered: boolean }): ReactNode {
  const say = useWords(workersWords)
  return (
    <Empty icon="workers" title={say(isFiltered ? 'noMatch' : 'none')}>
      <p>{say(isFiltered ? 'noMatchNext' : 'noneNext')}</p>
      {!isFiltered && <Code text={snippet} label={say('noneNext')} />}
    </Empty>
  )
}

function useColumns(): readonly Column<WireWorker>[] {
  const say = useWords(workersWords)
  return [
    {
      ...{ key: 'worker', head: say('worker') },
      cell: (worker) => (
        <div className="lines workers-name">
          <Link to="workers" query={{ id: worker.id }}>
            <Text value={worker.id} cut />
          </Link>
          <WorkerState worker={worker} />
        </div>
      ),
    },
    { key: 'busy', head: say('busy'), cell: (worker) => <Busy worker={worker} /> },
    {
      ...{ key: 'now', head: say('now'), grow: true, wideOnly: true },
      cell: (worker) => <RunsNow worker={worker} />,
    },
    {
      ...{ key: 'queues', head: say('queues'), wideOnly: true },
      cell: ({ queues }) => <Text value={queues.join(', ')} />,
    },
    { key: 'host', head: say('host'), wideOnly: true, cell: (worker) => <Place worker={worker} /> },
    {
      ...{ key: 'release', head: say('release'), wideOnly: true },
      cell: ({ release }) => (release === null ? <span className="aside">–</span> : <Text value={release} />),
    },
    { key: 'seen', head: say('seen'), wideOnly: true, cell: ({ seenAt }) => <Time at={seenAt} /> },
  ]
}
