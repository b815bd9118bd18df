import type { SlowWaits } from '../../../contention/index.ts'
import type { LogFields } from './log-line.ts'

const maxHolders = 5

/** The slow waits of one kind in one interval as a log line: a sentence for people, the figures for programs. */
export function slowWaitsLine(waits: SlowWaits): LogFields {
  const { kind, count, aboveMs, withinMs, longestMs, holders } = waits
  const many = `${count} ${count === 1 ? 'wait' : 'waits'} of ${kind} above ${aboveMs} ms`
  const mostly = holders[0] === undefined ? '' : `, mostly behind ${holders[0].holder}`
  const longest = `${(longestMs / 1_000).toFixed(1)} s`
  return {
    message: `${many} in the last ${Math.round(withinMs / 1_000)} s, longest ${longest}${mostly}`,
    ...waits,
    holders: holders.slice(0, maxHolders),
  }
}
