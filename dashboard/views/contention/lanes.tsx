import type { ReactNode } from 'react'
import { Section } from '../../kit/page.tsx'
import { Badge } from '../../kit/state.tsx'
import { Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { contentionWords } from '../../words/contention.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { Slots } from '../nodes/slots.tsx'
import type { Snapshot } from './heat.ts'

/** Lines and pools: how many have a turn, wait now, and waited at most. */
export function Lanes({ snapshot: { lanes } }: { readonly snapshot: Snapshot }): ReactNode {
  const say = useWords(contentionWords)
  const format = useFormat()
  return (
    <Section title={say('lanes')}>
      <p className="aside contention-lead">{say('lanesLead')}</p>
      <Table
        label={say('lanes')}
        keys={false}
        rows={lanes}
        rowKey={({ lane }) => lane}
        columns={[
          { key: 'lane', head: say('lane'), cell: ({ lane }) => <Text value={lane} mono /> },
          {
            ...{ key: 'turns', head: say('turns'), grow: true },
            cell: ({ lane, holding, size }) => (
              <span className="contention-turns">
                <Slots name={lane} used={Math.min(holding, size)} slots={size} />
                <span aria-hidden="true">
                  {format.number(holding)}/{format.number(size)}
                </span>
              </span>
            ),
          },
          {
            ...{ key: 'waiting', head: say('waitingHere'), align: 'end' },
            cell: ({ waiting }) =>
              waiting === 0 ? (
                <span className="aside">0</span>
              ) : (
                <Badge tone="warn" icon="waiting">
                  {format.number(waiting)}
                </Badge>
              ),
          },
          {
            ...{ key: 'peak', head: say('peak'), align: 'end' },
            cell: ({ peakWaiting }) => format.number(peakWaiting),
          },
        ]}
        empty={<p className="aside">{say('noLanes')}</p>}
      />
    </Section>
  )
}
