import type { ReactNode } from 'react'
import type { WireTask } from '../../../src/http/client/index.ts'
import { Button } from '../../kit/button.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Input, Select } from '../../kit/field.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Page } from '../../kit/page.tsx'
import { Pager } from '../../kit/pager.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Code } from '../../kit/text/json.tsx'
import { ShortId } from '../../kit/text/short-id.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Span, Time } from '../../kit/text/time.tsx'
import { useLive } from '../../live/queries.ts'
import { go, Link, useFilter, usePlace } from '../../shell/router.tsx'
import { namespaceToName, type SignedIn, useClient, useSignedIn } from '../../shell/session.ts'
import { kitWords } from '../../words/kit.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { shellWords } from '../../words/shell.ts'
import { tasksWords } from '../../words/tasks.ts'
import { TaskStatus } from './status.tsx'
import { OneTask } from './task.tsx'
import './tasks.css'

const pageSize = 50
type Status = WireTask['status']
const statuses: readonly Status[] = ['waiting', 'assigned', 'running', 'completed', 'failed', 'cancelled']

/** Tasks, newest first; `?id=` opens one. */
export default function TasksView(): ReactNode {
  const { id } = usePlace().query
  return id ? <OneTask key={id} id={id} /> : <AllTasks />
}

function AllTasks(): ReactNode {
  const say = useWords(tasksWords)
  const sayShell = useWords(shellWords)
  const client = useClient()
  const { cursor } = usePlace().query
  const [given] = useFilter('status')
  const status = statuses.find((one) => one === given)
  const asked = { limit: pageSize, ...(status ? { status } : {}), ...(cursor ? { cursor } : {}) }
  const tasks = useLive(['tasks', asked], () => client.dispatch.tasks(asked), { everyMs: 3_000 })
  const columns = useColumns()
  return (
    <Page title={sayShell('tasks')} lead={say('lead')}>
      <Toolbar status={status} />
      <Loaded query={tasks}>
        {({ items, cursor: next }) => (
          <>
            <Table
              label={sayShell('tasks')}
              rows={items}
              columns={columns}
              rowKey={({ taskId }) => taskId}
              onOpen={({ taskId }) => go('tasks', { id: taskId })}
              stale={tasks.isPlaceholderData}
              empty={<NoTasks isFiltered={status !== undefined} />}
            />
            {(items.length > 0 || cursor !== undefined) && (
              <Pager next={next}>{say('shown', { count: items.length })}</Pager>
            )}
          </>
        )}
      </Loaded>
    </Page>
  )
}

function Toolbar({ status }: { readonly status: Status | undefined }): ReactNode {
  const say = useWords(tasksWords)
  const sayKit = useWords(kitWords)
  const [, setStatus] = useFilter('status')
  const nameOf = (one: Status) => (one === 'assigned' ? say(one) : sayKit(one))
  return (
    <div className="toolbar">
      <Select
        bare
        label={say('status')}
        value={status ?? ''}
        options={[['', say('anyStatus')], ...statuses.map((one) => [one, nameOf(one)] as const)]}
        onChange={setStatus}
      />
      <Input
        bare
        mono
        type="search"
        label={say('taskId')}
        placeholder={say('openById')}
        value=""
        onChange={(value) => value.trim() && go('tasks', { id: value.trim() })}
      />
    </div>
  )
}

/** What submits a task to this very server. */
function snippetOf({ me, hasToken }: SignedIn): string {
  const namespace = namespaceToName(me)
  const chosen = [
    ...(hasToken ? ['token: process.env.SIGNALBOX_TOKEN'] : []),
    ...(namespace === undefined ? [] : [`namespace: ${JSON.stringify(namespace)}`]),
  ]
  const options = chosen.length === 0 ? '' : `, { ${chosen.join(', ')} }`
  return `import { createClient } from 'signalbox/client'

const client = createClient('${new URL('.', document.baseURI).href}'${options})
const { taskId } = await client.dispatch.submit({
  service: 'asr',
  payload: { audio: 's3://calls/17.ogg' },
})`
}

function NoTasks({ isFiltered }: { readonly isFiltered: boolean }): ReactNode {
  const say = useWords(tasksWords)
  const signedIn = useSignedIn()
  return (
    <Empty icon="tasks" title={say('none')}>
      <p>{say(isFiltered ? 'noneMatch' : 'noneAtAll')}</p>
      {isFiltered ? (
        <Button onPress={() => go('tasks')}>{say('clear')}</Button>
      ) : (
        <>
          <div className="tasks-snippet">
            <Code text={snippetOf(signedIn)} label={say('snippet')} />
          </div>
          <Link to="nodes">{say('orNodes')}</Link>
        </>
      )}
    </Empty>
  )
}

function useColumns(): readonly Column<WireTask>[] {
  const say = useWords(tasksWords)
  const format = useFormat()
  return [
    {
      ...{ key: 'task', head: say('task') },
      cell: ({ taskId }) => (
        <Link to="tasks" query={{ id: taskId }}>
          <ShortId id={taskId} />
        </Link>
      ),
    },
    { key: 'service', head: say('service'), cell: ({ service }) => <Text value={service} /> },
    { key: 'status', head: say('status'), cell: ({ status }) => <TaskStatus status={status} /> },
    {
      ...{ key: 'node', head: say('node'), wideOnly: true },
      cell: ({ nodeId }) =>
        nodeId === null ? (
          <span className="aside">–</span>
        ) : (
          <Link to="nodes" query={{ id: nodeId }}>
            <Text value={nodeId} />
          </Link>
        ),
    },
    {
      ...{ key: 'attempt', head: say('attempt'), align: 'end', roomyOnly: true },
      cell: ({ attempt }) => format.number(attempt),
    },
    {
      ...{ key: 'submitted', head: say('submitted'), wideOnly: true },
      cell: ({ submittedAt }) => <Time at={submittedAt} />,
    },
    {
      ...{ key: 'took', head: say('took'), align: 'end', wideOnly: true },
      cell: ({ submittedAt, finishedAt }) => (
        <Span ms={finishedAt === null ? null : Math.max(0, finishedAt - submittedAt)} />
      ),
    },
    {
      ...{ key: 'about', head: say('about'), grow: true, wideOnly: true },
      cell: ({ error }) => error !== null && <Text value={`${error.code}: ${error.message}`} cut />,
    },
  ]
}
