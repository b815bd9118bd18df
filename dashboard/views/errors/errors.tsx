import type { ReactNode } from 'react'
import type { WireErrorGroup } from '../../../src/http/client/index.ts'
import { Button } from '../../kit/button.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Input } from '../../kit/field.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Page } from '../../kit/page.tsx'
import { Pager } from '../../kit/pager.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { useLive } from '../../live/queries.ts'
import { go, Link, useFilter, usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { errorsWords } from '../../words/errors.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { shellWords } from '../../words/shell.ts'
import './errors.css'
import { OneGroup } from './group.tsx'

const pageSize = 50

/** Errors of jobs, in groups of one cause; `?group=` opens one. */
export default function ErrorsView(): ReactNode {
  const { group } = usePlace().query
  return group ? <OneGroup fingerprint={group} /> : <AllGroups />
}

function AllGroups(): ReactNode {
  const say = useWords(errorsWords)
  const sayShell = useWords(shellWords)
  const client = useClient()
  const { query } = usePlace()
  const [kind, setKind] = useFilter('kind')
  const asked = { limit: pageSize, ...(kind && { kind }), ...(query.cursor && { cursor: query.cursor }) }
  const groups = useLive(['errors', asked], () => client.jobs.errorGroups(asked))
  const columns = useColumns()
  return (
    <Page title={sayShell('errors')} lead={say('lead')}>
      <div className="toolbar">
        <Input
          bare
          type="search"
          label={say('kind')}
          placeholder={say('anyKind')}
          value={kind}
          onChange={(value) => setKind(value.trim())}
        />
        {kind !== '' && (
          <Button look="quiet" icon="dead" onPress={() => go('errors')}>
            {say('clear')}
          </Button>
        )}
      </div>
      <Loaded query={groups}>
        {({ items, cursor, counting }) => (
          <>
            <Table
              label={sayShell('errors')}
              rows={items}
              columns={columns}
              rowKey={({ fingerprint }) => fingerprint}
              onOpen={({ fingerprint }) => go('errors', { group: fingerprint })}
              stale={groups.isPlaceholderData}
              empty={
                <Empty icon="errors" title={say(kind === '' ? 'none' : 'noMatch')}>
                  <p>{say(kind === '' ? 'noneNext' : 'noMatchNext')}</p>
                </Empty>
              }
            />
            <Pager next={cursor}>{counting ? say('counting') : undefined}</Pager>
          </>
        )}
      </Loaded>
    </Page>
  )
}

function useColumns(): readonly Column<WireErrorGroup>[] {
  const say = useWords(errorsWords)
  const format = useFormat()
  return [
    {
      ...{ key: 'error', head: say('error'), grow: true },
      cell: ({ fingerprint, error, kind, lastSeenAt }) => (
        <div className="errors-error">
          <Link to="errors" query={{ group: fingerprint }}>
            <Text value={error.name ?? error.code ?? say('noName')} cut />
          </Link>
          <span className="errors-message">
            <Text value={error.message} cut />
          </span>
          <span className="aside narrow-only errors-when">
            <Time at={lastSeenAt} /> · <Text value={kind} />
          </span>
        </div>
      ),
    },
    { key: 'kind', head: say('kind'), wideOnly: true, cell: ({ kind }) => <Text value={kind} /> },
    {
      ...{ key: 'count', head: say('attempts'), align: 'end' },
      cell: ({ attemptCount }) => format.compact(attemptCount),
    },
    {
      ...{ key: 'last', head: say('lastSeen'), wideOnly: true },
      cell: ({ lastSeenAt }) => <Time at={lastSeenAt} />,
    },
    {
      ...{ key: 'first', head: say('firstSeen'), wideOnly: true },
      cell: ({ firstSeenAt }) => <Time at={firstSeenAt} />,
    },
    {
      ...{ key: 'releases', head: say('releases'), wideOnly: true },
      cell: ({ releases }) =>
        releases.length === 0 ? <span className="aside">–</span> : <Text value={releases.join(', ')} />,
    },
  ]
}
