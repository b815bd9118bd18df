import { hostname } from 'node:os'
import { version } from '../../core/version.ts'
import { boundSchemas, type Member, type Membership, type WorkerVia } from '../../fleet/workers/index.ts'
import type { Attempt } from './attempt.ts'
import type { ResolvedWorkerOptions } from './worker-options.ts'

/** How a box lists its workers. */
export interface WorkerMembership {
  readonly membership: Membership
  readonly via: WorkerVia
}

/** The facts in a worker's row. They do not change while the worker runs. */
export function factsOf(
  { workerId, queues, handlers, schemas, concurrency, release }: ResolvedWorkerOptions,
  { via }: WorkerMembership,
): Member['facts'] {
  return {
    ...{ workerId, via, queues, concurrency, release, version },
    host: [...hostname()].slice(0, 191).join('') || null,
    pid: process.pid,
    kinds: [...handlers.keys()].sort(),
    schemas: boundSchemas(readSchemas(schemas)),
  }
}

/** A schema is user code; a schema that throws is omitted. */
function* readSchemas(
  schemas: ResolvedWorkerOptions['schemas'],
): Generator<readonly [kind: string, schema: unknown]> {
  for (const [kind, read] of schemas) {
    let schema: unknown
    try {
      schema = read()
    } catch {
      continue
    }
    yield [kind, schema]
  }
}

/** The attempts are in the order of their start, so the list shows the longest runs. */
const maxShown = 20

export function showRunning(running: Iterable<Attempt>, now: number): ReturnType<Member['look']>['running'] {
  const shown: { id: string; kind: string; ms: number }[] = []
  for (const { jobId, record, begunAt } of running) {
    shown.push({ id: jobId, kind: record.kind, ms: begunAt === 0 ? 0 : Math.round(now - begunAt) })
    if (shown.length === maxShown) break
  }
  return shown
}
