import type { ReactNode } from 'react'
import { Section } from '../../kit/page.tsx'
import { Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { contentionWords } from '../../words/contention.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import type { Snapshot } from './heat.ts'
import { More } from './more.tsx'

/** The slowest turns of late: what was waited and what was held, one after the other in a bar. */
export function Slowest({ snapshot: { slowest } }: { readonly snapshot: Snapshot }): ReactNode {
  const say = useWords(contentionWords)
  const format = useFormat()
  const rows = slowest.map((turn, nth) => ({ ...turn, nth }))
  const most = slowest.reduce((high, { waitMs, holdMs }) => Math.max(high, waitMs + holdMs), 0)
  const width = (ms: number) => ({ inlineSize: `${most === 0 ? 0 : (ms / most) * 100}%` })
  return (
    <Section title={say('slowest')}>
      <p className="aside contention-lead">
        {say('slowestLead')}
        <span className="contention-legend">
          <i className="is-wait" />
          {say('waited')}
        </span>
        <span className="contention-legend">
          <i className="is-hold" />
          {say('held')}
        </span>
      </p>
      <More rows={rows} first={10}>
        {(shown) => (
          <Table
            label={say('slowest')}
            rows={shown}
            rowKey={({ nth }) => String(nth)}
            columns={[
              { key: 'kind', head: say('kind'), cell: ({ kind }) => <Text value={kind} mono /> },
              {
                ...{ key: 'about', head: say('about'), grow: true, wideOnly: true },
                cell: ({ what }) =>
                  what === null ? <span className="aside">–</span> : <Text value={what} cut />,
              },
              {
                ...{ key: 'bar', head: say('both'), wideOnly: true },
                cell: ({ waitMs, holdMs }) => (
                  <span
                    className="contention-turn"
                    role="img"
                    aria-label={say('slowBar', { wait: format.span(waitMs), hold: format.span(holdMs) })}
                  >
                    {waitMs > 0 && <i className="is-wait" style={width(waitMs)} />}
                    <i className="is-hold" style={width(holdMs)} />
                  </span>
                ),
              },
              {
                ...{ key: 'waited', head: say('waited'), align: 'end' },
                cell: ({ waitMs }) => format.span(waitMs),
              },
              {
                ...{ key: 'held', head: say('held'), align: 'end' },
                cell: ({ holdMs }) => format.span(holdMs),
              },
              {
                ...{ key: 'ended', head: say('ended'), wideOnly: true },
                cell: ({ at }) => <Time at={at} />,
              },
            ]}
            empty={<p className="aside">{say('noSlow')}</p>}
          />
        )}
      </More>
    </Section>
  )
}
