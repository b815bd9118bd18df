import { type ReactNode, useEffect, useState } from 'react'
import { isSignalboxError, type WireJob } from '../../../src/http/client/index.ts'
import { Button } from '../../kit/button.tsx'
import { Empty } from '../../kit/empty.tsx'
import { LookingFurther } from '../../kit/jobs/further.tsx'
import { jobColumns } from '../../kit/jobs/job-columns.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Page } from '../../kit/page.tsx'
import { Pager } from '../../kit/pager.tsx'
import { Table } from '../../kit/table.tsx'
import { useFurther } from '../../live/further.ts'
import { useLive } from '../../live/queries.ts'
import { go, usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import type { Say } from '../../words/catalogue.ts'
import { jobsWords } from '../../words/jobs.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { shellWords } from '../../words/shell.ts'
import { Acts } from './acts.tsx'
import { filtersOf, searchOf } from './filters.ts'
import './jobs.css'
import { Operations } from './operations.tsx'
import { Toolbar } from './toolbar.tsx'

const pageSize = 50
const nothing: ReadonlyMap<string, WireJob> = new Map()

/** Jobs, newest first, as filters and a search mean them; and what can be done to some or all of them. */
export default function JobsView(): ReactNode {
  const say = useWords(jobsWords)
  const sayShell = useWords(shellWords)
  const format = useFormat()
  const client = useClient()
  const { query } = usePlace()
  const filters = filtersOf(query)
  const asked = { ...filters, limit: pageSize, ...(query.cursor ? { cursor: query.cursor } : {}) }
  const place = JSON.stringify(asked)
  // Keep each selected job as last seen: it may leave the page when the list updates.
  const [selected, setSelected] = useState(nothing)
  // Another list clears the selection.
  // biome-ignore lint/correctness/useExhaustiveDependencies: whenever what is listed changes
  useEffect(() => setSelected(nothing), [place])
  const jobs = useLive(['jobs', asked], () => client.jobs.list(asked), { everyMs: 5_000 })
  const further = useFurther(asked, jobs.isPlaceholderData ? undefined : jobs.data)
  const shown = (further.page ?? jobs.data)?.items ?? []
  const select = (ids: ReadonlySet<string>, rows: readonly WireJob[]) =>
    setSelected((before) => {
      const known = new Map([...before, ...rows.map((job) => [job.id, job] as const)])
      return new Map([...ids].flatMap((id) => (known.has(id) ? [[id, known.get(id)!] as const] : [])))
    })
  const unread = unreadSearch(filters.search, jobs.error, say)
  const isFiltered = Object.keys(filters).length > 0

  return (
    <Page title={sayShell('jobs')}>
      <Toolbar
        problem={unread}
        isLooking={jobs.isPending || jobs.isPlaceholderData || (further.walked?.isLooking ?? false)}
      />
      <Acts
        selected={[...selected.values()].map((job) => shown.find(({ id }) => id === job.id) ?? job)}
        onDone={() => setSelected(nothing)}
        search={searchOf(filters)}
        filtered={filters.state}
      />
      {unread === undefined && (
        <Loaded query={jobs}>
          {(answer) => {
            const { items, cursor } = further.page ?? answer
            const { walked, canLookOn } = further
            return (
              <>
                <Table
                  label={sayShell('jobs')}
                  rows={items}
                  columns={jobColumns(say)}
                  rowKey={({ id }) => id}
                  onOpen={({ id }) => go('job', { id })}
                  selection={{ selected: new Set(selected.keys()), onChange: select }}
                  stale={jobs.isPlaceholderData}
                  empty={
                    <Empty icon="jobs" title={say(walked?.isLooking ? 'noneSoFar' : 'none')}>
                      <p>
                        {walked?.isLooking || canLookOn
                          ? say('noneYet', { scanned: format.number(walked!.scanned) })
                          : say(isFiltered ? 'noneMatch' : 'noneAtAll')}
                      </p>
                      {isFiltered && <Button onPress={() => go('jobs')}>{say('clear')}</Button>}
                    </Empty>
                  }
                />
                <LookingFurther further={further} found={items.length} />
                <Pager next={walked?.isLooking || canLookOn ? null : cursor}>
                  {walked === undefined && items.length > 0
                    ? say('shown', { count: items.length })
                    : undefined}
                </Pager>
              </>
            )
          }}
        </Loaded>
      )}
      <Operations />
    </Page>
  )
}

/** Why the search does not parse, if that is why there is no list. */
function unreadSearch(search: string | undefined, error: Error | null, say: Say<typeof jobsWords>) {
  if (!isSignalboxError(error, 'invalid_argument') || search === undefined) return undefined
  const { option, column, expected } = error.details ?? {}
  if (!String(option).endsWith('search')) return undefined
  return typeof column === 'number'
    ? say('doesNotParse', { column, expected: String(expected) })
    : error.message
}
