import { type ReactNode, useEffect, useRef, useState } from 'react'
import { Action } from '../../kit/action.tsx'
import { Button } from '../../kit/button.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Input, Select } from '../../kit/field.tsx'
import { useKeys } from '../../kit/keys.ts'
import { Loaded } from '../../kit/loaded.tsx'
import { Page } from '../../kit/page.tsx'
import { Pager } from '../../kit/pager.tsx'
import { Table } from '../../kit/table.tsx'
import { useLive } from '../../live/queries.ts'
import { go, useFilter, usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { onceWords } from '../../words/once.ts'
import { shellWords } from '../../words/shell.ts'
import { ServerCounts, StatusCounts } from './counts.tsx'
import { Forgetting } from './forget-dialog.tsx'
import { type Filters, filtersOf, guardStatuses, questionOf } from './guard-filters.ts'
import { guardColumns } from './guards.tsx'
import './once.css'

/** Guards: what was claimed to happen once, and what came of it. */
export default function OnceView(): ReactNode {
  const say = useWords(onceWords)
  const sayShell = useWords(shellWords)
  const client = useClient()
  const { query } = usePlace()
  const filters = filtersOf(query)
  const question = questionOf(filters)
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [asked, ask] = useState<readonly string[]>()
  const guards = useLive(['once', question], () => client.once.list(question), { everyMs: 2_000 })
  const all = guards.data?.items ?? []
  const rows = all.filter(({ status }) => filters.status === undefined || status === filters.status)
  // Selected keys stay in sight, also when they left the page. Another list clears the selection.
  const chosen = [...selected]
  const place = JSON.stringify(filters)
  // biome-ignore lint/correctness/useExhaustiveDependencies: whenever what is listed changes
  useEffect(() => setSelected(new Set()), [place])
  return (
    <Page
      title={sayShell('once')}
      lead={say('lead')}
      actions={
        <Action
          scope="admin"
          look="danger"
          disabled={chosen.length === 0}
          reason={say('selectFirst')}
          onPress={() => ask(chosen)}
        >
          {say('forget')}
        </Action>
      }
    >
      <StatusCounts filters={filters} />
      <Toolbar filters={filters} />
      <Loaded query={guards}>
        {({ cursor }) => (
          <>
            <Table
              label={say('guards')}
              rows={rows}
              columns={guardColumns(say)}
              rowKey={({ key }) => key}
              selection={{ selected, onChange: setSelected }}
              stale={guards.isPlaceholderData}
              empty={<Nothing filters={filters} />}
            />
            <Pager next={cursor}>
              {filters.status !== undefined
                ? say('ofPage', { count: rows.length, all: all.length })
                : rows.length > 0
                  ? say('onPage', { count: rows.length })
                  : undefined}
            </Pager>
          </>
        )}
      </Loaded>
      <ServerCounts />
      {asked && (
        <Forgetting
          keys={asked}
          space={filters.space}
          onClose={() => ask(undefined)}
          onDone={() => setSelected(new Set())}
        />
      )}
    </Page>
  )
}

function Toolbar({ filters }: { readonly filters: Filters }): ReactNode {
  const say = useWords(onceWords)
  const [, setSpace] = useFilter('space')
  const [, setStatus] = useFilter('status')
  const [search, setSearch] = useFilter('search')
  const field = useRef<HTMLInputElement>(null)
  // On this page `/` focuses this search, not the one in the top bar.
  useKeys({ '/': () => field.current?.select() })
  return (
    <div className="toolbar">
      <Select
        bare
        label={say('space')}
        value={filters.space}
        options={[
          ['once', say('spaceOnce')],
          ['processing', say('spaceProcessing')],
        ]}
        onChange={(space) => setSpace(space === 'once' ? '' : space)}
      />
      <Select
        bare
        label={say('status')}
        value={filters.status ?? ''}
        options={[['', say('anyStatus')], ...guardStatuses.map((status) => [status, say(status)] as const)]}
        onChange={setStatus}
      />
      <Input
        bare
        ref={field}
        type="search"
        label={say('search')}
        placeholder={say('search')}
        value={search}
        onChange={(value) => setSearch(value.trim())}
      />
      {(search !== '' || filters.status !== undefined) && (
        <Button look="quiet" icon="dead" onPress={() => go('once')}>
          {say('clear')}
        </Button>
      )}
    </div>
  )
}

function Nothing({ filters }: { readonly filters: Filters }): ReactNode {
  const say = useWords(onceWords)
  if (filters.search !== undefined || filters.status !== undefined || filters.cursor !== undefined) {
    return (
      <Empty icon="once" title={say('noMatch')}>
        <p>{say('noMatchNext')}</p>
      </Empty>
    )
  }
  const isOnce = filters.space === 'once'
  return (
    <Empty icon="once" title={say(isOnce ? 'none' : 'noneProcessing')}>
      <p>{say(isOnce ? 'noneNext' : 'noneProcessingNext')}</p>
      <code>
        {isOnce
          ? "await box.once.run('welcome-mail:ada', () => sendMail())"
          : "await box.once.processing('crawl:7', ({ signal }) => crawl(signal))"}
      </code>
    </Empty>
  )
}
