import { type CSSProperties, type ReactNode, useState } from 'react'
import { Button } from '../../kit/button.tsx'
import { Section } from '../../kit/page.tsx'
import { Text } from '../../kit/text/text.tsx'
import { visible } from '../../kit/text/visible.ts'
import { contentionWords } from '../../words/contention.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { type Cell, heatMapOf, heatOf, type Snapshot } from './heat.ts'

const firstRows = 10
const mostRows = 60

/** Waiters by holders: a table whose cells have their numbers, and are the darker the longer. */
export function HeatTable({ snapshot }: { readonly snapshot: Snapshot }): ReactNode {
  const say = useWords(contentionWords)
  const format = useFormat()
  const [isAll, showAll] = useState(false)
  const { holders, rows, low, high } = heatMapOf(snapshot, isAll ? mostRows : firstRows)
  const waiterCount = new Set(snapshot.matrix.map(({ waiter }) => waiter)).size
  const count = Math.max(waiterCount, snapshot.holders.length)
  return (
    <Section
      title={say('matrix')}
      actions={
        <span className="contention-scale aside">
          <i aria-hidden="true" />
          {say('scale', { low: format.span(low), high: format.span(high) })}
        </span>
      }
    >
      <p className="aside contention-lead">{say('matrixLead')}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section className="contention-scroll" aria-label={say('matrix')} tabIndex={0}>
        <table className="contention-heat">
          <thead>
            <tr>
              <th scope="col">{say('waiter')}</th>
              {holders.map((holder) => (
                <th key={holder} scope="col" className="end" title={visible(holder)}>
                  <Text value={holder} mono cut />
                </th>
              ))}
              <th scope="col" className="end">
                {say('total')}
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ waiter, ms, cells }) => (
              <tr key={waiter}>
                <th scope="row">
                  <Text value={waiter} mono />
                </th>
                {cells.map((cell, nth) => (
                  <HeatCell key={holders[nth]} cell={cell} high={high} />
                ))}
                <td className="end">
                  <strong>{format.span(ms)}</strong>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {count > firstRows && (
        <div className="contention-more">
          <Button look="quiet" onPress={() => showAll(!isAll)}>
            {isAll ? say('showFewer') : say('showAll', { count: Math.min(count, mostRows) })}
          </Button>
        </div>
      )}
    </Section>
  )
}

/** The darkest shade still lets its number be read. */
const darkest = 46

function HeatCell({ cell, high }: { readonly cell: Cell | undefined; readonly high: number }): ReactNode {
  const say = useWords(contentionWords)
  const format = useFormat()
  if (cell === undefined) return <td className="end aside">·</td>
  const { waiter, holder, ms, count } = cell
  const told = say('cell', {
    waiter: visible(waiter),
    holder: visible(holder),
    span: format.span(ms),
    count,
  })
  const heat = `${Math.round(heatOf(ms, high) * darkest)}%`
  return (
    <td className="end contention-cell" title={told} style={{ '--contention-heat': heat } as CSSProperties}>
      {format.span(ms)}
    </td>
  )
}
