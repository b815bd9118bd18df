/** Who waits, how long, and who held them up: one recorder for the whole process. */
export type { KindTraits, Meter, Ticket } from '../core/meter.ts'
export {
  type CommandUnderWay,
  type Contention,
  type ContentionEvents,
  type ContentionSeries,
  createContention,
  type LockWaits,
  noContention,
  processContention,
  type SlowWaits,
  type SnapshotOptions,
} from './contention.ts'
export type { WaitKey } from './keys.ts'
export { type ContentionOptions, contentionDefaults } from './options.ts'
export type { BoundCounts, KindSeries } from './reading.ts'
export type {
  ContentionSnapshot,
  Distribution,
  HolderTotal,
  KeyWaitView,
  KindTimes,
  LaneDepth,
  MatrixCell,
  SlowTurnView,
} from './snapshot.ts'
