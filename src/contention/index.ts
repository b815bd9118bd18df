/** Records which commands wait, how long, and for which holders: one recorder for the whole process. */
export type { KindTraits, Meter, Ticket } from '../core/meter.ts'
export {
  type CommandUnderWay,
  type Contention,
  type ContentionEvents,
  type ContentionOptions,
  contentionDefaults,
  createContention,
  type LockWaits,
  noContention,
  processContention,
  type SlowWaits,
  type SnapshotOptions,
} from './contention.ts'
export type { WaitKey } from './key-waits.ts'
export type {
  BoundCounts,
  ContentionSeries,
  ContentionSnapshot,
  Distribution,
  HolderTotal,
  KeyWaitView,
  KindSeries,
  KindTimes,
  LaneDepth,
  MatrixCell,
  SlowTurnView,
} from './snapshot.ts'
