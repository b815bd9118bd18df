import { type ReactNode, useState } from 'react'
import { isSignalboxError, type WireFoundTask } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Confirm } from '../../kit/confirm.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Input } from '../../kit/field.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Facts, Page, Section } from '../../kit/page.tsx'
import { Badge } from '../../kit/state.tsx'
import { Copy } from '../../kit/text/copy.tsx'
import { Json } from '../../kit/text/json.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Span } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { changed, useLive } from '../../live/queries.ts'
import { Link } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { shellWords } from '../../words/shell.ts'
import { tasksWords } from '../../words/tasks.ts'
import { Asks } from './asks.tsx'
import { Events } from './events.tsx'
import { Explain } from './explain.tsx'
import { Life } from './life.tsx'
import { TaskStatus } from './status.tsx'
import { useTaskEvents } from './use-events.ts'

/** One task: how it stands, why it waits, what it asks for, what it carries and came to, and what happens to it. */
export function OneTask({ id }: { readonly id: string }): ReactNode {
  const say = useWords(tasksWords)
  const sayShell = useWords(shellWords)
  const client = useClient()
  const task = useLive(
    ['tasks', 'one', id],
    async () => {
      try {
        return await client.dispatch.task(id)
      } catch (error) {
        if (isSignalboxError(error, 'not_found')) return null
        throw error
      }
    },
    { everyMs: 2_000 },
  )
  const found = task.data ?? undefined
  return (
    <Page
      title={found === undefined ? sayShell('tasks') : visible(found.service)}
      lead={<Link to="tasks">{say('allTasks')}</Link>}
      actions={found && <Cancel task={found} />}
    >
      <Loaded query={task}>{(one) => (one === null ? <Missing /> : <Whole task={one} />)}</Loaded>
    </Page>
  )
}

function Missing(): ReactNode {
  const say = useWords(tasksWords)
  return (
    <Empty icon="tasks" title={say('missing')}>
      <p>{say('missingNext')}</p>
    </Empty>
  )
}

function Whole({ task }: { readonly task: WireFoundTask }): ReactNode {
  const say = useWords(tasksWords)
  const { taskId, status, output, error, payload } = task
  const isOver = task.finishedAt !== null
  const events = useTaskEvents(taskId, isOver)
  return (
    <>
      <div className="card">
        <About task={task} />
      </div>
      <Life task={task} events={events} />
      {status === 'waiting' && <Explain task={task} />}
      {error !== null && (
        <Section title={say('error')}>
          <p className="card">
            <Badge
              tone={status === 'failed' ? 'bad' : 'calm'}
              icon={status === 'failed' ? 'dead' : 'cancelled'}
            >
              <Text value={error.code} />
            </Badge>{' '}
            <Text value={error.message} />
          </p>
        </Section>
      )}
      {status === 'completed' && (
        <Section title={say('output')}>
          <Json value={output} label={say('output')} />
        </Section>
      )}
      <Asks task={task} />
      <Section title={say('payload')}>
        <Json value={payload} label={say('payload')} />
      </Section>
      {(!isOver || events.length > 0) && <Events events={events} />}
    </>
  )
}

function About({ task }: { readonly task: WireFoundTask }): ReactNode {
  const say = useWords(tasksWords)
  const format = useFormat()
  const { taskId, status, nodeId, attempt, priority, tenant, session, deadlineMs, idleMs, retryable } = task
  return (
    <Facts
      items={[
        [say('status'), <TaskStatus key="status" status={status} />],
        [
          say('id'),
          <span key="id" className="mono">
            <Text value={taskId} /> <Copy text={taskId} />
          </span>,
        ],
        [
          say('node'),
          nodeId === null ? (
            <span key="node" className="aside">
              {say('nowhere')}
            </span>
          ) : (
            <Link key="node" to="nodes" query={{ id: nodeId }}>
              <Text value={nodeId} />
            </Link>
          ),
        ],
        [say('attempt'), format.number(attempt)],
        [say('priority'), say('priorityOf', { priority })],
        [say('tenant'), <Text key="tenant" value={tenant} />],
        session === null ? undefined : [say('session'), <Text key="session" value={session} />],
        deadlineMs === null
          ? undefined
          : [say('deadline'), say('deadlineOf', { span: format.span(deadlineMs) })],
        idleMs === null ? undefined : [say('idle'), <Span key="idle" ms={idleMs} />],
        [say('retryable'), say(retryable ? 'retries' : 'fails')],
      ]}
    />
  )
}

function Cancel({ task }: { readonly task: WireFoundTask }): ReactNode {
  const say = useWords(tasksWords)
  const client = useClient()
  const [isAsked, ask] = useState(false)
  const [reason, write] = useState('')
  const confirm = async () => {
    const text = reason.trim()
    const { status } = await client.dispatch.cancel(task.taskId, text === '' ? {} : { reason: text })
    toast(say(status === 'completed' || status === 'failed' ? 'wasOver' : 'cancelled'))
    await changed('tasks', 'nodes', 'audit')
  }
  return (
    <>
      <Action
        scope="work"
        look="danger"
        disabled={task.finishedAt !== null}
        reason={say('endedAlready')}
        onPress={() => ask(true)}
      >
        {say('cancel')}
      </Action>
      {isAsked && (
        <Confirm
          danger
          title={say('cancelAsk')}
          act={say('cancel')}
          onConfirm={confirm}
          onClose={() => ask(false)}
        >
          <p>{say('cancelMeans')}</p>
          <Input live label={say('reason')} value={reason} onChange={write} />
        </Confirm>
      )}
    </>
  )
}
