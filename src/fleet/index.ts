/** Counts, times, workers and scaling of all processes on a store. */
export { createFleetMetrics, type FleetMetrics } from './fleet-metrics.ts'
export type { SeriesKeep, SeriesRow, WaitCause } from './rules/index.ts'
export type { ScalingBound } from './scaling/decide-scaling.ts'
export {
  readScaling,
  type Scaling,
  type ScalingParts,
  type ScalingRequest,
  type ServiceSight,
} from './scaling/read-scaling.ts'
export {
  fittingStep,
  readSeries,
  type Series,
  type SeriesItem,
  type SeriesNumbers,
  type SeriesPoint,
  type SeriesRequest,
  type Times,
} from './series/read-series.ts'
export {
  createSeriesRecorder,
  type SeriesRecorder,
  type SeriesRecorderParts,
  type SeriesTotal,
} from './series/recorder.ts'
export { createSeriesCounting, type SeriesCounting } from './series/series-counting.ts'
export { resolveSeriesOptions, type SeriesOptions, seriesDefaults } from './series/series-options.ts'
export type * from './series/series-store.ts'
