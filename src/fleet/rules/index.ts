/** How counts and times are kept and merged: pure, so that all engines and the readers agree. */
export { boundsMs, Histogram } from './histogram.ts'
export {
  type CountName,
  countNames,
  SeriesCell,
  type SeriesValues,
  type WaitCause,
  waitCauses,
} from './series-cell.ts'
export {
  hasWork,
  keptSteps,
  type Merge,
  planRead,
  planSeries,
  type SeriesMark,
  type SeriesPlan,
} from './series-plan.ts'
export {
  hourMs,
  isOfKind,
  mergeRows,
  minuteMs,
  type SeriesKeep,
  type SeriesRow,
  seriesBounds,
  stepAt,
  tenMinutesMs,
} from './series-row.ts'
