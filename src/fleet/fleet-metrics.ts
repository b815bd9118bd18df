import { readScaling, type ScalingParts } from './scaling/read-scaling.ts'
import type { Scaling, ScalingRequest } from './scaling/scaling.ts'
import { readSeries } from './series/read-series.ts'
import type { Series, SeriesRequest } from './series/series.ts'

/** What all processes on the store do. */
export interface FleetMetrics {
  /** Counts and times of jobs over time. Throws `invalid_argument`. */
  series(request?: SeriesRequest): Promise<Series>
  /** How many workers of a queue, or nodes of a service, the work calls for, and why. Throws `invalid_argument`. */
  scaling(request: ScalingRequest): Promise<Scaling>
}

export function createFleetMetrics(parts: ScalingParts): FleetMetrics {
  return {
    series: (request) => readSeries(parts.series, request),
    scaling: (request) => readScaling(parts, request),
  }
}
