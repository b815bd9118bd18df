import type { ReactNode } from 'react'
import type { Client } from '../../../src/http/client/index.ts'
import { Empty } from '../../kit/empty.tsx'
import { Input } from '../../kit/field.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Page } from '../../kit/page.tsx'
import { Pager } from '../../kit/pager.tsx'
import { Badge } from '../../kit/state.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { useLive } from '../../live/queries.ts'
import { useFilter, usePlace } from '../../shell/router.tsx'
import { useClient, useMay } from '../../shell/session.ts'
import { auditWords } from '../../words/audit.ts'
import { useWords } from '../../words/language.tsx'
import { shellWords } from '../../words/shell.ts'
import './audit.css'

type Entry = Awaited<ReturnType<Client['audit']['list']>>['items'][number]

/** What operators did, newest first. */
export default function AuditView(): ReactNode {
  const say = useWords(auditWords)
  const sayShell = useWords(shellWords)
  return (
    <Page title={sayShell('audit')} lead={say('lead')}>
      {useMay('admin') ? (
        <Entries />
      ) : (
        <Empty icon="audit" title={say('needsAdmin')}>
          <p>{say('needsAdminNext')}</p>
        </Empty>
      )}
    </Page>
  )
}

function Entries(): ReactNode {
  const say = useWords(auditWords)
  const sayShell = useWords(shellWords)
  const client = useClient()
  const { cursor } = usePlace().query
  const [action, setAction] = useFilter('action')
  const [actor, setActor] = useFilter('actor')
  const asked = { ...(action && { action }), ...(actor && { actor }), ...(cursor && { cursor }) }
  const columns = useColumns()
  const entries = useLive(['audit', asked], () => client.audit.list({ ...asked, limit: 50 }))
  return (
    <>
      <div className="toolbar">
        <Input
          bare
          label={say('action')}
          placeholder={say('anyAction')}
          value={action}
          onChange={(value) => setAction(value.trim())}
        />
        <Input
          bare
          label={say('actor')}
          placeholder={say('anyActor')}
          value={actor}
          onChange={(value) => setActor(value.trim())}
        />
      </div>
      <Loaded query={entries}>
        {({ items, cursor: next }) => (
          <>
            <Table
              label={sayShell('audit')}
              rows={items}
              columns={columns}
              rowKey={({ id }) => id}
              empty={
                <Empty icon="audit" title={say('none')}>
                  <p>{say('noneNext')}</p>
                </Empty>
              }
            />
            <Pager next={next} />
          </>
        )}
      </Loaded>
    </>
  )
}

const outcomes = {
  done: { tone: 'good', icon: 'completed' },
  refused: { tone: 'bad', icon: 'dead' },
  unknown: { tone: 'warn', icon: 'warning' },
} as const

function useColumns(): readonly Column<Entry>[] {
  const say = useWords(auditWords)
  return [
    { key: 'when', head: say('when'), cell: ({ at }) => <Time at={at} /> },
    {
      ...{ key: 'actor', head: say('actor'), wideOnly: true },
      cell: ({ actor: { id, name } }) => <Text value={name ?? (id === 'local' ? say('local') : id)} cut />,
    },
    {
      ...{ key: 'action', head: say('deed'), grow: true },
      cell: ({ action, target }) => (
        <span className="audit-action">
          <Text value={action} mono cut />
          <span className="aside">
            <Text value={describe(target)} cut />
          </span>
        </span>
      ),
    },
    {
      ...{ key: 'outcome', head: say('outcome') },
      cell: ({ outcome, code }) => (
        <Badge {...outcomes[outcome]}>
          {say(outcome)} {code !== null && <Text value={code} mono />}
        </Badge>
      ),
    },
  ]
}

/** What it was about, in one line. */
function describe(target: Entry['target']): string {
  return Object.entries(target)
    .map(([name, value]) => `${name}: ${value}`)
    .join(', ')
}
