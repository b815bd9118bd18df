import type { FleetWorker, FleetWorkerState, FoundFleetWorker } from './fleet-worker.ts'
import type { NewWorker, WorkerRecord, WorkerRenewal } from './worker-store.ts'

/** A worker whose lease ended is gone, whatever its row says. */
export function stateOf({ mode, leaseEndsAt }: WorkerRecord, now: number): FleetWorkerState {
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
export const maxRunning = 20

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
