/** Runs work at most once per key and keeps its result. Windows keep a state from being notified twice. */

export { createUpkeep, type Upkeep, type UpkeepParts } from '../core/upkeep.ts'
export { canonicalJson, digestParts, digestState } from './digest.ts'
export * from './guard-store.ts'
export {
  type GuardedRun,
  type GuardedRunParts,
  type OncePlace,
  type ProcessingOptions,
  type RunOptions,
  runOnce,
  runProcessing,
} from './guarded-run.ts'
export { createOnce, type Once, type OnceParts, type Renewed, type Settled } from './once.ts'
export {
  type ClaimManyOptions,
  type ClaimOptions,
  type ListGuardsOptions,
  type OnceOptions,
  type OnceSpace,
  onceDefaults,
  type PlaceOptions,
  type ResolvedOnceOptions,
  resolveOnceOptions,
} from './once-options.ts'
export { type OnceEvents, type OnceStats, OnceTally } from './once-tally.ts'
export { type ChangeEvent, eventId, type SeenOptions, type Sighting } from './window.ts'
