import { readScaling, type Scaling, type ScalingParts, type ScalingRequest } from './scaling/read-scaling.ts'
import { readSeries, type Series, type SeriesRequest } from './series/read-series.ts'

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
