import { readScaling, type ScalingParts } from './scaling/read-scaling.ts'
import type { Scaling, ScalingRequest } from './scaling/scaling.ts'
import { readSeries } from './series/read-series.ts'
import type { Series, SeriesRequest } from './series/series.ts'

/** Metrics of all processes on the store. */
export interface FleetMetrics {
  /** Counts and times of jobs over time. Throws `invalid_argument`. */
  series(request?: SeriesRequest): Promise<Series>
  /**
   * The number of workers of a queue, or nodes of a service, that the work needs, and why. Throws `invalid_argument`.
   */
  scaling(request: ScalingRequest): Promise<Scaling>
}

export function createFleetMetrics(parts: ScalingParts): FleetMetrics {
  return {
    series: (request) => readSeries(parts.series, request),
    scaling: (request) => readScaling(parts, request),
  }
}
