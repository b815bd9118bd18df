/** Workers as members of the fleet: each keeps one leased row, and follows what operators ask of it. */
export { absentWorkers } from './absent-workers.ts'
export {
  type FleetWorker,
  type FleetWorkerState,
  type FoundFleetWorker,
  fleetWorkerStates,
  membershipTimes,
  type RunningJob,
  type WantedMode,
  type WorkerMode,
  type WorkerVia,
  workersTopic,
} from './fleet-worker.ts'
export { createMembership, type Member, type MemberHandle, type Membership } from './membership.ts'
export { boundSchemas, showFoundWorker, showWorker } from './show-worker.ts'
export type {
  NewWorker,
  ReadyKinds,
  WorkerPage,
  WorkerRecord,
  WorkerRef,
  WorkerRenewal,
  WorkerStanding,
  WorkerStore,
} from './worker-store.ts'
export {
  createWorkerVerbs,
  type ListWorkersOptions,
  type StopWorkerOptions,
  type WorkersPage,
  type WorkerVerbs,
} from './worker-verbs.ts'
