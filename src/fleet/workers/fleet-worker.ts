/**
 * A worker as the fleet sees it: one row that the worker keeps under a lease. All instants are of the store's clock, so
 * the clocks of hosts do not matter.
 */
export interface FleetWorker {
  /**
   * Names the worker in calls. It is the `workerId`, with a suffix (`mail#4k2c9x`) when another live worker already has
   * that name.
   */
  readonly id: string
  /** What its jobs show as `workerId`. */
  readonly workerId: string
  /**
   * `running`: it claims jobs. `quiet`: it finishes what it has and claims nothing. `stopping`: it finishes, then ends.
   * `gone`: its lease ended without a word; it is kept for a day. A worker that stopped in good order leaves the list.
   */
  readonly state: FleetWorkerState
  /** What an operator asked for last. The worker follows within two seconds. */
  readonly wanted: WantedMode
  /** `library`: works on the store itself. `remote`: a box on a server. `http`: known by its claims over HTTP alone. */
  readonly via: WorkerVia
  readonly host: string | null
  readonly pid: number | null
  readonly queues: readonly string[]
  /** The kinds it knows, sorted; null: it takes every kind. */
  readonly kinds: readonly string[] | null
  /** How many handlers run at once; null: not known. */
  readonly concurrency: number | null
  /** What it runs, longest first, up to 20 jobs; as of `seenAt`. */
  readonly running: readonly RunningJob[]
  /** How many it runs in all; null: not known. */
  readonly runningCount: number | null
  /** The version of the user's program, from the option `release`. */
  readonly release: string | null
  /** The version of Signalbox it works with. */
  readonly version: string | null
  readonly startedAt: number
  readonly seenAt: number
  readonly leaseEndsAt: number
}

/** A worker with the JSON Schemas of its kinds. */
export interface FoundFleetWorker extends FleetWorker {
  /** By kind; kinds without a schema are left out. */
  readonly schemas: Readonly<Record<string, unknown>>
  /** The store's clock when it was read: ages are counted from here. */
  readonly at: number
}

/** A job that a worker runs. */
export interface RunningJob {
  readonly id: string
  readonly kind: string
  /** When its handler began. */
  readonly since: number
}

export type FleetWorkerState = 'running' | 'quiet' | 'stopping' | 'gone'
/** What a worker does, as it says itself. */
export type WorkerMode = Exclude<FleetWorkerState, 'gone'>
/** What operators ask of a worker. */
export type WantedMode = 'run' | 'quiet' | 'stop'
export type WorkerVia = 'library' | 'remote' | 'http'

export const fleetWorkerStates: readonly FleetWorkerState[] = ['running', 'quiet', 'stopping', 'gone']

/** Wakes workers after an operator asked something of one. A hint: workers poll as well. */
export const workersTopic = 'jobs.workers'

/** How often rows are written and read. */
export const membershipTimes: {
  /** Without a renewal for so long, a worker is gone. */
  readonly leaseMs: number
  /** At most so long between two renewals of an idle worker. */
  readonly renewMs: number
  /** The same after the running jobs changed. */
  readonly changedMs: number
  /** How often a process asks what operators want of its workers. */
  readonly pollMs: number
  /** Wake-ups may come often; between two looks is at least this. */
  readonly restMs: number
  /** How long a worker that is gone is listed. */
  readonly keepGoneMs: number
} = {
  leaseMs: 30_000,
  renewMs: 10_000,
  changedMs: 5_000,
  pollMs: 1_500,
  restMs: 500,
  keepGoneMs: 86_400_000,
}
