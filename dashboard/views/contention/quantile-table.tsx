import type { ReactNode } from 'react'
import { contentionWords } from '../../words/contention.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { placeOf, type Snapshot } from './heat.ts'

export type Distribution = Snapshot['kinds'][number]['wait']

export interface QuantilesProps {
  readonly of: Distribution
  /** The longest of all that are compared. */
  readonly high: number
}

/** How long something took, as a small bar: to the median, to 90 %, to 99 %, and a line at the longest. */
export function Quantiles({ of: { count, p50Ms, p90Ms, p99Ms, maxMs }, high }: QuantilesProps): ReactNode {
  const say = useWords(contentionWords)
  const format = useFormat()
  if (count === 0 || maxMs === 0) return <span className="aside">–</span>
  const label = say('quantiles', {
    count,
    p50: format.span(p50Ms),
    p90: format.span(p90Ms),
    p99: format.span(p99Ms),
    max: format.span(maxMs),
  })
  const width = (ms: number) => ({ inlineSize: `${placeOf(ms, high) * 100}%` })
  return (
    <span className="contention-quantiles" title={label}>
      <span className="contention-box" role="img" aria-label={label}>
        <i className="is-99" style={width(p99Ms)} />
        <i className="is-90" style={width(p90Ms)} />
        <i className="is-50" style={width(p50Ms)} />
        <i className="is-max" style={{ insetInlineStart: `${placeOf(maxMs, high) * 100}%` }} />
      </span>
      <span className="contention-numbers" aria-hidden="true">
        {say('medianAnd', { p50: format.span(p50Ms), p99: format.span(p99Ms) })}
      </span>
    </span>
  )
}
