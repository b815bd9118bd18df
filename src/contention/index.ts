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
export { type ContentionOptions, contentionDefaults } from './contention-options.ts'
export type { WaitKey } from './key-waits.ts'
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
export type { BoundCounts, KindSeries } from './take-snapshot.ts'
