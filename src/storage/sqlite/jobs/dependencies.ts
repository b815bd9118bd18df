import type { DependencyStore } from '../../../jobs/index.ts'
import { type Connection, readNow } from '../connection/connection.ts'
import type { Reader } from '../connection/reader.ts'
import type { Writer } from '../writing/writer.ts'
import {
  hasCalled,
  listGated,
  listUnmet,
  mayTend,
  readFences,
  readNeighbours,
  readStates,
} from './dependency-reads.ts'
import type { GateStep, GateSteps } from './dependency-steps.ts'
import type { SqliteTransactions } from './jobs.ts'

export interface SqliteGatesOptions {
  readonly namespace: string
  readonly writer: Writer
  readonly reader: Reader
  readonly transactions: Pick<SqliteTransactions, 'join'>
  /** Throws when the store was closed. */
  check(): void
}

/** The most jobs that one `prune` looks at. */
const prunedJobs = 2_000

/** What the jobs of one namespace wait for: steps go to the writer, looking goes to the reader. */
export function createSqliteDependencies({
  namespace,
  writer,
  reader,
  transactions,
  check,
}: SqliteGatesOptions): DependencyStore {
  const take = async <Name extends keyof GateSteps>(
    name: Name,
    args: Parameters<GateSteps[Name]>,
  ): Promise<ReturnType<GateSteps[Name]>> => {
    check()
    // Steps are told apart by their name, which comes with its own arguments and has its own answer.
    const step = [name, args] as unknown as GateStep
    return (await writer.write({ operation: 'gate', namespace, args: step })) as ReturnType<GateSteps[Name]>
  }
  const read = async <Value>(work: (connection: Connection, now: number) => Value): Promise<Value> => {
    check()
    return reader.read((connection) => work(connection, readNow(connection)))
  }
  /** Behind which job the next `prune` goes on. */
  let place = ''
  return {
    states: (ids) =>
      read((connection, now) => readStates(connection, namespace, ids, now).map((job) => job?.state)),
    async seenIn(tx, ids) {
      check()
      return transactions.join(tx, (connection) => {
        const jobs = readStates(connection, namespace, ids, readNow(connection))
        return ids.filter((_, at) => jobs[at] !== undefined)
      })
    },
    unmet: (query) => read((connection) => listUnmet(connection, namespace, query)),
    meet: async (dependencies) => (dependencies.length === 0 ? [] : take('meet', [dependencies])),
    fail: async (ends) => (ends.length === 0 ? [] : take('fail', [ends])),
    around: (id, limit) => read((connection, now) => readNeighbours(connection, namespace, id, limit, now)),
    async tend(request) {
      const isDue =
        request.of === undefined
          ? await read((connection, now) => mayTend(connection, namespace, now))
          : request.of.length > 0
      return isDue ? take('tend', [request]) : []
    },
    hasCalled: () => read((connection) => hasCalled(connection, namespace)),
    grant: (request) => take('grant', [request]),
    blockAgain: (request) => take('blockAgain', [request]),
    fences: (ids) => read((connection) => readFences(connection, namespace, ids)),
    async take(ids) {
      const taken = ids.length === 0 ? [] : await take('take', [ids])
      const byId = new Map(taken.map(({ jobId, ...fence }) => [jobId, fence]))
      return ids.map((id) => byId.get(id))
    },
    rest: async (ids) => (ids.length === 0 ? undefined : take('rest', [ids])),
    async prune(limit) {
      const from = place
      const { ids, gone } = await read((connection, now) => {
        const blocked = listGated(connection, namespace, from, prunedJobs)
        const jobs = readStates(connection, namespace, blocked, now)
        return { ids: blocked, gone: blocked.filter((_, at) => jobs[at] === undefined) }
      })
      const forgotten = gone.length === 0 ? 0 : await take('prune', [gone, limit])
      if (forgotten < limit) place = ids.length < prunedJobs ? '' : ids.at(-1)!
      return forgotten
    },
  }
}
