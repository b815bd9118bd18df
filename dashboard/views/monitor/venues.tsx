import type { ReactNode } from 'react'
import type { MonitorClient } from '../../../src/http/client/index.ts'
import { Input } from '../../kit/field.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Pager } from '../../kit/pager.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { useLive } from '../../live/queries.ts'
import { go, useFilter, usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'
import { NothingMatches, ReportFirst } from './empty-states.tsx'
import { placeQuery, VenueName } from './place.tsx'
import { stateText } from './state-text.ts'

type Subject = Awaited<ReturnType<MonitorClient['subjects']>>['items'][number]

/** Every venue that was reported, and how it is now; one opens its story. */
export function Venues(): ReactNode {
  const say = useWords(monitorWords)
  const client = useClient()
  const { cursor } = usePlace().query
  const [search, setSearch] = useFilter('search')
  const [source, setSource] = useFilter('source')
  const columns = useColumns()
  const asked = { ...(source && { source }), ...(search && { search }), ...(cursor && { cursor }) }
  const venues = useLive(['monitor', 'venues', asked], () => client.monitor.subjects({ ...asked, limit: 50 }))
  return (
    <>
      <div className="toolbar">
        <Input
          bare
          type="search"
          label={say('searchVenues')}
          placeholder={say('searchVenues')}
          value={search}
          onChange={setSearch}
        />
        <Input
          bare
          label={say('source')}
          placeholder={say('anySource')}
          value={source}
          onChange={setSource}
        />
      </div>
      <Loaded query={venues}>
        {({ items, cursor: next }) => (
          <>
            <Table
              label={say('venues')}
              rows={items}
              columns={columns}
              rowKey={(one) => JSON.stringify(placeQuery(one))}
              onOpen={(one) => go('monitor', placeQuery(one))}
              stale={venues.isPlaceholderData}
              empty={
                Object.keys(asked).length > 0 ? (
                  <NothingMatches part="venues" />
                ) : (
                  <ReportFirst title={say('noVenues')} next={say('noVenuesNext')} />
                )
              }
            />
            <Pager next={next} />
          </>
        )}
      </Loaded>
    </>
  )
}

function useColumns(): readonly Column<Subject>[] {
  const say = useWords(monitorWords)
  return [
    {
      ...{ key: 'venue', head: say('venue'), grow: true },
      cell: (subject) => <VenueName venue={subject} />,
    },
    {
      ...{ key: 'state', head: say('state'), whole: true },
      cell: ({ state, changedAt }) => (
        <span className="lines monitor-state">
          <Text value={stateText(state)} mono cut />
          <span className="aside narrow-only">
            <Time at={changedAt} />
          </span>
        </span>
      ),
    },
    {
      ...{ key: 'changed', head: say('lastChanged'), align: 'end', wideOnly: true },
      cell: ({ changedAt }) => <Time at={changedAt} />,
    },
    {
      ...{ key: 'seen', head: say('lastSeen'), align: 'end', wideOnly: true },
      cell: ({ observedAt }) => <Time at={observedAt} />,
    },
  ]
}
