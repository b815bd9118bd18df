import type { NewWorker, WorkerRecord, WorkerRenewal } from './worker-store.ts'

/**
 * A worker in the list of the fleet: one row that the worker renews under a lease. All instants are of the store's
 * clock, so the clocks of hosts do not matter.
 */
export interface FleetWorker {
  /**
   * Names the worker in calls. It is the `workerId`, with a suffix (`mail#4k2c9x`) when another live worker already has
   * that name.
   */
  readonly id: string
  /** The `workerId` of its jobs. */
  readonly workerId: string
  /**
   * `running`: it claims jobs. `quiet`: it finishes its jobs and claims none. `stopping`: it finishes its jobs, then
   * ends. `gone`: its lease expired; it stays listed for a day. A worker that stopped regularly leaves the list.
   */
  readonly state: FleetWorkerState
  /**
   * The last request of an operator. The worker follows within two seconds; on Postgres within ten, if a wake-up is
   * lost.
   */
  readonly wanted: WantedMode
  /** `library`: works on the store itself. `remote`: a box on a server. `http`: known only by its claims over HTTP. */
  readonly via: WorkerVia
  readonly host: string | null
  readonly pid: number | null
  readonly queues: readonly string[]
  /** The kinds it knows, sorted; null: it takes every kind. */
  readonly kinds: readonly string[] | null
  /** The most handlers that run at once; null: unknown. */
  readonly concurrency: number | null
  /** Its running jobs at `seenAt`, longest first, up to 20. */
  readonly running: readonly RunningJob[]
  /** The number of all its running jobs; null: unknown. */
  readonly runningCount: number | null
  /** The version of the user's program, from the option `release`. */
  readonly release: string | null
  /** Its version of Signalbox. */
  readonly version: string | null
  readonly startedAt: number
  readonly seenAt: number
  readonly leaseEndsAt: number
}

/** A worker with the JSON Schemas of its kinds. */
export interface FoundFleetWorker extends FleetWorker {
  /** By kind; kinds without a schema are left out. */
  readonly schemas: Readonly<Record<string, unknown>>
  /** The store's clock at the read: ages count from here. */
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
/** The mode that a worker reports. */
export type WorkerMode = Exclude<FleetWorkerState, 'gone'>
/** The mode that an operator requests. */
export type WantedMode = 'run' | 'quiet' | 'stop'
export type WorkerVia = 'library' | 'remote' | 'http'

export const fleetWorkerStates: readonly FleetWorkerState[] = ['running', 'quiet', 'stopping', 'gone']

/** Wakes workers after a request of an operator. A hint: workers poll too. */
export const workersTopic = 'jobs.workers'

/** How often rows are written and read. */
export const membershipTimes: {
  /** After this time without a renewal, a worker is gone. */
  readonly leaseMs: number
  /** The longest time between two renewals of an idle worker. */
  readonly renewMs: number
  /** The longest time between two renewals after the running jobs changed. */
  readonly changedMs: number
  /** How often a process reads the requests of operators. */
  readonly pollMs: number
  /** The shortest time between two reads, because wake-ups may come often. */
  readonly restMs: number
  /** How long a worker stays listed as gone. */
  readonly keepGoneMs: number
} = {
  leaseMs: 30_000,
  renewMs: 10_000,
  changedMs: 5_000,
  pollMs: 1_500,
  restMs: 500,
  keepGoneMs: 86_400_000,
}

/** A worker whose lease ended is gone, whatever its row says. */
function stateOf({ mode, leaseEndsAt }: WorkerRecord, now: number): FleetWorkerState {
  return leaseEndsAt <= now ? 'gone' : mode
}

/** Converts a row into the form that operators see. */
export function showWorker(record: WorkerRecord, now: number): FleetWorker {
  const { mode: _, schemas: __, ...worker } = record
  return { ...worker, state: stateOf(record, now) }
}

/** The same with its schemas. */
export function showFoundWorker(record: WorkerRecord, now: number): FoundFleetWorker {
  return { ...showWorker(record, now), schemas: record.schemas, at: now }
}

/** The most running jobs in a row, longest first. */
const maxRunning = 20

/** The running jobs that a row names. */
export function boundRunning(running: WorkerRenewal['running']): WorkerRenewal['running'] {
  return running.toSorted((a, b) => b.ms - a.ms).slice(0, maxRunning)
}

/** The most characters of one schema, and of all schemas of a worker, as JSON. */
const maxSchemaChars = 16_384
const maxSchemasChars = 65_536

/** The schemas that fit into a row. A schema that is too large, or not JSON, is left out. */
export function boundSchemas(
  schemas: Iterable<readonly [kind: string, schema: unknown]>,
): NewWorker['schemas'] {
  const kept: [string, unknown][] = []
  let chars = 0
  for (const [kind, schema] of schemas) {
    const text = asJson(schema)
    if (text === undefined || text.length > maxSchemaChars) continue
    if (chars + text.length > maxSchemasChars) break
    chars += text.length
    kept.push([kind, JSON.parse(text)])
  }
  return Object.fromEntries(kept)
}

function asJson(schema: unknown): string | undefined {
  if (typeof schema !== 'object' || schema === null) return undefined
  try {
    return JSON.stringify(schema)
  } catch {
    return undefined
  }
}
