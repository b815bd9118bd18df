import type { ReactNode } from 'react'
import { Section } from '../../kit/page.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { contentionWords } from '../../words/contention.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import type { Snapshot } from './heat.ts'
import { More } from './more.tsx'
import { Quantiles } from './quantile-table.tsx'

/** Every kind of command, with how long it waited and how long its turns took. */
export function Kinds({ snapshot: { kinds } }: { readonly snapshot: Snapshot }): ReactNode {
  const say = useWords(contentionWords)
  const format = useFormat()
  if (kinds.length === 0) return null
  const high = kinds.reduce((most, { wait, hold }) => Math.max(most, wait.maxMs, hold.maxMs), 0)
  const columns: readonly Column<(typeof kinds)[number]>[] = [
    { key: 'kind', head: say('kind'), cell: ({ kind }) => <Text value={kind} mono /> },
    {
      ...{ key: 'lane', head: say('lane'), wideOnly: true },
      cell: ({ lane }) => (lane === null ? <span className="aside">–</span> : <Text value={lane} mono />),
    },
    {
      ...{ key: 'waits', head: say('waits'), align: 'end', wideOnly: true },
      cell: ({ wait }) => format.compact(wait.count),
    },
    { key: 'wait', head: say('wait'), cell: ({ wait }) => <Quantiles of={wait} high={high} /> },
    {
      ...{ key: 'holds', head: say('holds'), align: 'end', wideOnly: true },
      cell: ({ hold }) => format.compact(hold.count),
    },
    { key: 'hold', head: say('hold'), cell: ({ hold }) => <Quantiles of={hold} high={high} /> },
  ]
  return (
    <Section title={say('kinds')}>
      <p className="aside contention-lead">{say('kindsLead')}</p>
      <More rows={kinds} first={15}>
        {(shown) => (
          <div className="contention-kinds">
            <Table
              label={say('kinds')}
              keys={false}
              rows={shown}
              rowKey={({ kind }) => kind}
              columns={columns}
              empty={null}
            />
          </div>
        )}
      </More>
    </Section>
  )
}
