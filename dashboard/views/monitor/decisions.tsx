import type { ReactNode } from 'react'
import { Select } from '../../kit/field.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Pager } from '../../kit/pager.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Time } from '../../kit/text/time.tsx'
import { useLive } from '../../live/queries.ts'
import { go, useFilter, usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'
import { Change } from './change.tsx'
import { NothingMatches, ReportFirst } from './empty-states.tsx'
import { PlaceFilter, placeOf, placeQuery, VenueName } from './place.tsx'
import { allReasons, type Decision, type Reason, ReasonBadge } from './reason.tsx'
import { Verdicts } from './verdicts.tsx'

/** What was decided about each report, newest first: notified or not, to whom, and why. */
export function Decisions(): ReactNode {
  const say = useWords(monitorWords)
  const client = useClient()
  const { query } = usePlace()
  const [reason, setReason] = useFilter('reason')
  const isReason = (allReasons as readonly string[]).includes(reason)
  const asked = {
    ...placeOf(query),
    ...(isReason && { reason: reason as Reason }),
    ...(query.cursor && { cursor: query.cursor }),
  }
  const columns = useColumns()
  const decisions = useLive(['monitor', 'decisions', asked], () =>
    client.monitor.decisions({ ...asked, limit: 50 }),
  )
  return (
    <>
      <div className="toolbar">
        <Select
          bare
          label={say('why')}
          value={isReason ? reason : ''}
          options={[['', say('anyReason')], ...allReasons.map((one) => [one, say(one)] as const)]}
          onChange={setReason}
        />
        <PlaceFilter part="decisions" />
      </div>
      <Loaded query={decisions}>
        {({ items, cursor }) => (
          <>
            <Table
              label={say('decisions')}
              rows={items}
              columns={columns}
              rowKey={({ id }) => id}
              onOpen={(one) => go('monitor', placeQuery(one))}
              stale={decisions.isPlaceholderData}
              empty={
                Object.keys(asked).length > 0 ? (
                  <NothingMatches part="decisions" />
                ) : (
                  <ReportFirst title={say('noDecisions')} next={say('noDecisionsNext')} />
                )
              }
            />
            <Pager next={cursor} />
          </>
        )}
      </Loaded>
    </>
  )
}

function useColumns(): readonly Column<Decision>[] {
  const say = useWords(monitorWords)
  return [
    {
      ...{ key: 'when', head: say('when'), wideOnly: true },
      cell: ({ decidedAt }) => <Time at={decidedAt} />,
    },
    {
      ...{ key: 'venue', head: say('venue'), grow: true },
      cell: (decision) => (
        <span className="lines">
          <VenueName venue={decision} />
          <Change from={decision.from} to={decision.to} />
        </span>
      ),
    },
    {
      ...{ key: 'why', head: say('why'), whole: true },
      cell: ({ reason, decidedAt }) => (
        <span className="lines">
          <ReasonBadge reason={reason} />
          <span className="aside narrow-only">
            <Time at={decidedAt} />
          </span>
        </span>
      ),
    },
    {
      ...{ key: 'who', head: say('who'), wideOnly: true, whole: true },
      cell: (decision) => <Verdicts decision={decision} />,
    },
  ]
}
