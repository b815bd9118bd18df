import type { JobCount } from '../../sql/job-reads.ts'
import type { Connection } from '../connection/connection.ts'

/**
 * Counts very many ready jobs in pieces, along the index that orders them: by queue, kind and priority, then a fixed
 * number at a time. Reads run in the calling thread, so counting a million jobs at once would block the process. Jobs
 * move on between the pieces, so the count describes a period, not a moment.
 */
export interface Counting {
  /** Whether the table is large enough for counting in pieces. */
  isLarge(connection: Connection): boolean
  /** Counts the next piece; false: it was the last. */
  step(connection: Connection): boolean
  readonly counts: readonly JobCount[]
}

/** Counting this many rows takes a few milliseconds. */
const pieceRows = 10_000
/** Up to here they are counted in one go. */
const largeRows = 20_000

const ready = `FROM job_queue INDEXED BY job_queue_ready
  WHERE namespace = ?1 AND state = 'ready' AND limit_key IS NULL`
const line = `${ready} AND queue = ?2 AND kind = ?3 AND priority = ?4`
const beyond = `${line} AND (run_at, id) > (?5, ?6)`

interface Line {
  readonly queue: string
  readonly kind: string
  readonly priority: number
}

export function countReady(namespace: string): Counting {
  const counts: JobCount[] = []
  let at: Line | undefined
  let place: { readonly run_at: number; readonly id: string } | undefined
  let count = 0

  function nextLine(connection: Connection): Line | undefined {
    const after = at
    const within =
      after &&
      (connection.get<Line>(
        `SELECT queue, kind, priority ${ready} AND queue = ?2 AND kind = ?3 AND priority < ?4
         ORDER BY priority DESC LIMIT 1`,
        namespace,
        after.queue,
        after.kind,
        after.priority,
      ) ??
        connection.get<Line>(
          `SELECT queue, kind, priority ${ready} AND queue = ?2 AND kind > ?3
           ORDER BY kind, priority DESC LIMIT 1`,
          namespace,
          after.queue,
          after.kind,
        ))
    return (
      within ??
      connection.get<Line>(
        `SELECT queue, kind, priority ${ready} AND queue > ?2 ORDER BY queue, kind, priority DESC LIMIT 1`,
        namespace,
        // A name has at least one character.
        after?.queue ?? '',
      )
    )
  }

  return {
    counts,
    isLarge: (connection) =>
      connection.get(`SELECT 1 ${ready} LIMIT 1 OFFSET ?2`, namespace, largeRows) !== undefined,
    step(connection) {
      for (let looked = 0; looked < pieceRows; ) {
        if (place === undefined) {
          at = nextLine(connection)
          if (at === undefined) return false
          count = 0
        }
        const { queue, kind, priority } = at!
        const from = [namespace, queue, kind, priority] as const
        const [run, id] = place === undefined ? [Number.MIN_SAFE_INTEGER, ''] : [place.run_at, place.id]
        const end = connection.get<{ run_at: number; id: string }>(
          `SELECT run_at, id ${beyond} ORDER BY run_at, id LIMIT 1 OFFSET ?7`,
          ...from,
          run,
          id,
          pieceRows - 1,
        )
        if (end !== undefined) {
          place = end
          count += pieceRows
          looked += pieceRows
          continue
        }
        const rest = connection.get<{ count: number }>(
          `SELECT count(*) AS count ${beyond}`,
          ...from,
          run,
          id,
        )!
        const first = connection.get<{ oldest: number | null }>(
          `SELECT min(run_at) AS oldest ${line}`,
          ...from,
        )!
        looked += rest.count + 1
        count += rest.count
        // It may have emptied meanwhile.
        if (first.oldest !== null && count > 0)
          counts.push({ queue, state: 'ready', jobs: count, oldest: first.oldest })
        place = undefined
      }
      return true
    },
  }
}
