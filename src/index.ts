/** Signalbox keeps a fleet of workers from colliding. `open` gives all the modules on one store; each is also a subpath. */
export type { Box } from './box.ts'
export type { Duration } from './core/duration.ts'
export {
  type ErrorCode,
  isSignalboxError,
  SignalboxError,
  type SignalboxErrorOptions,
} from './core/errors.ts'
export type { AlertOptions } from './fleet/alerts/index.ts'
export type {
  FleetMetrics,
  Scaling,
  ScalingRequest,
  Series,
  SeriesItem,
  SeriesNumbers,
  SeriesOptions,
  SeriesPoint,
  SeriesRequest,
} from './fleet/index.ts'
export type {
  RemoteAckOptions,
  RemoteAdd,
  RemoteBox,
  RemoteHandler,
  RemoteHandlerFunction,
  RemoteHandlerJob,
  RemoteHandlerSpec,
  RemoteJobs,
  RemoteNackOptions,
  RemoteOpenOptions,
  RemoteUrl,
  RemoteWorkerOptions,
  WithoutTransaction,
} from './http/remote/index.ts'
export {
  type AesSealerOptions,
  createAesSealer,
  type DefineOptions,
  defineJob,
  type JobDefinition,
  type JobsOptions,
  type SealContext,
  type SealedPart,
  type SealedView,
  type Sealer,
  type StandardSchema,
} from './jobs/index.ts'
export { type OpenOptions, open } from './open.ts'
