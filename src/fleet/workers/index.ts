/** Workers as members of the fleet: each keeps one leased row, and follows what operators ask of it. */
export {
  boundSchemas,
  type FleetWorker,
  type FleetWorkerState,
  type FoundFleetWorker,
  fleetWorkerStates,
  membershipTimes,
  type RunningJob,
  showFoundWorker,
  showWorker,
  type WantedMode,
  type WorkerMode,
  type WorkerVia,
  workersTopic,
} from './fleet-worker.ts'
export { createMembership, type Member, type MemberHandle, type Membership } from './membership.ts'
export * from './worker-store.ts'
export {
  createWorkerVerbs,
  type ListWorkersOptions,
  type StopWorkerOptions,
  type WorkersPage,
  type WorkerVerbs,
} from './worker-verbs.ts'
