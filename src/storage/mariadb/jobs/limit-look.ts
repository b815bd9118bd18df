import type { Call, Statement } from '../connection/calls.ts'
import type { Store } from '../engine-store.ts'
import { byOrder, type Placed } from './hand-out.ts'

/**
 * Looks for jobs that a queue with limits could start, by plain reads. The caller has locked the queue's row, so no
 * other claim runs meanwhile; the chosen jobs are locked afterwards.
 *
 * Keys are found in two ways, since MariaDB does not hop over an index by itself. A page of entries in one statement is
 * cheap where keys have few jobs each (0.5 µs an entry); hopping from key to key, in a loop in the server, where they
 * have many (20 µs a key, measured). Which it is shows in the page before.
 */
const pageSize = 2_000
const sparseKeys = 100
const hopCount = 200
/** Up to this many jobs without a key are all read; beyond it, they are searched for in the queue's order. */
const fewKeyless = 1_000
const maxRefilled = 200
const maxRefill = 5_000

/** A job that could be handed out. */
export interface Waiting extends Placed {
  readonly limit_key: string | null
}

export class LimitLook {
  readonly #store: Store
  readonly #call: Call
  readonly #queue: string
  readonly #kinds: readonly string[] | null

  constructor(store: Store, call: Call, queue: string, kinds: readonly string[] | null) {
    this.#store = store
    this.#call = call
    this.#queue = queue
    this.#kinds = kinds
  }

  /** The first ready jobs. Without keys the index has all columns. */
  selectFront(count: number, withKeys: boolean): Statement {
    return this.#selectLine(withKeys ? 'limit_key' : 'NULL AS limit_key', '', count)
  }

  /** The first `count` of those without a key. */
  async keyless(count: number): Promise<readonly Waiting[]> {
    const { tables, namespace } = this.#store
    const every = `SELECT id FROM ${tables.queue} FORCE INDEX (job_queue_limit)
        WHERE namespace = ? AND queue = ? AND limit_ready IS NULL LIMIT ${fewKeyless}`
    const ids = await this.#rows<{ id: string }>([every, [namespace, this.#queue]])
    if (ids.length === 0) return []
    // Past the others, in the index alone.
    if (ids.length === fewKeyless) {
      return this.#rows(this.#selectLine('NULL AS limit_key', ' AND limit_ready IS NULL', count))
    }
    const kinds = this.#kinds
    return this.#rows([
      `SELECT id, limit_key, sort_rank, run_at FROM ${tables.queue} FORCE INDEX (PRIMARY)
        WHERE namespace = ? AND id IN (?) AND state = 'ready'${kinds === null ? '' : ' AND kind IN (?)'}
        ORDER BY sort_rank, run_at, id LIMIT ?`,
      [namespace, ids.map(({ id }) => id), ...(kinds === null ? [] : [kinds]), count],
    ])
  }

  /**
   * Up to `count` keys that have ready jobs and are not among `full`, behind `after` and then from the beginning; and
   * whether there are more.
   */
  async keys(
    count: number,
    full: readonly string[],
    after: string,
  ): Promise<{ readonly keys: readonly string[]; readonly hasMore: boolean }> {
    const isFull = new Set(full)
    const found: string[] = []
    for (const [from, to] of after === ''
      ? [['', null] as const]
      : ([
          [after, null],
          ['', after],
        ] as const)) {
      let last: string | undefined = from
      let isSparse = false
      while (last !== undefined && found.length <= count) {
        const some: Some = isSparse ? await this.#hop(last, to) : await this.#page(last, to, full)
        found.push(...some.keys.filter((key) => !isFull.has(key)))
        isSparse = !isSparse && some.keys.length < sparseKeys
        last = some.isEnd ? undefined : some.keys.at(-1)
      }
    }
    return { keys: found.slice(0, count), hasMore: found.length > count }
  }

  async #page(after: string, to: string | null, full: readonly string[]): Promise<Some> {
    const { tables, namespace } = this.#store
    // Up to a thousand of them are made ranges of the index, with nothing read in between.
    const but = full.slice(0, 1_000)
    const rows = await this.#rows<{ limit_key: string; count: number }>([
      `SELECT limit_key, COUNT(*) AS count FROM (
          SELECT limit_key FROM ${tables.queue} FORCE INDEX (job_queue_limit)
          WHERE namespace = ? AND queue = ? AND limit_ready = 1 AND limit_key > ?${to === null ? '' : ' AND limit_key <= ?'}
            ${but.length === 0 ? '' : 'AND limit_key NOT IN (?)'}
          ORDER BY limit_key LIMIT ${pageSize}) page
        GROUP BY limit_key ORDER BY limit_key`,
      [namespace, this.#queue, after, ...(to === null ? [] : [to]), ...(but.length === 0 ? [] : [but])],
    ])
    const read = rows.reduce((sum, { count }) => sum + Number(count), 0)
    return { keys: rows.map(({ limit_key }) => limit_key), isEnd: read < pageSize }
  }

  async #hop(after: string, to: string | null): Promise<Some> {
    const { tables, namespace } = this.#store
    const [[row]] = (await this.#call.rows(
      `BEGIN NOT ATOMIC
        DECLARE hopped VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin DEFAULT ?;
        DECLARE hops INT DEFAULT 0;
        DECLARE found LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin DEFAULT '';
        WHILE hops < ${hopCount} AND hopped IS NOT NULL DO
          SELECT MIN(limit_key) INTO hopped FROM ${tables.queue} FORCE INDEX (job_queue_limit)
            WHERE namespace = ? AND queue = ? AND limit_ready = 1 AND limit_key > hopped${to === null ? '' : ' AND limit_key <= ?'};
          IF hopped IS NOT NULL THEN SET found = CONCAT(found, IF(hops = 0, '', ','), JSON_QUOTE(hopped)); END IF;
          SET hops = hops + 1;
        END WHILE;
        SELECT found;
      END`,
      [after, namespace, this.#queue, ...(to === null ? [] : [to])],
    )) as unknown as [{ found: string }[]]
    const keys = JSON.parse(`[${row!.found}]`) as string[]
    return { keys, isEnd: keys.length < hopCount }
  }

  /** Of each of these keys its first job; of all those the first `count`. */
  async heads(keys: readonly string[], count: number): Promise<readonly Waiting[]> {
    if (keys.length === 0) return []
    const { tables, namespace } = this.#store
    const [kind, kinds] = this.#ofKinds('f.')
    // A subquery gives one value, so it is made of three; joining the rows instead would take as long again.
    const rows = await this.#rows<{ limit_key: string; head: string | null }>([
      `SELECT k.limit_key, (
          SELECT CONCAT_WS(' ', f.limit_rank, f.limit_at, f.id) FROM ${tables.queue} f FORCE INDEX (job_queue_limit)
          WHERE f.namespace = ? AND f.queue = ? AND f.limit_ready = 1 AND f.limit_key = k.limit_key${kind}
          ORDER BY f.limit_rank, f.limit_at, f.id LIMIT 1) AS head
        FROM (WITH v (limit_key) AS (VALUES ?) SELECT * FROM v) k`,
      [namespace, this.#queue, ...kinds, keys.map((key) => [key])],
    ])
    const heads = rows.flatMap(({ limit_key, head }): Waiting[] => {
      if (head === null) return []
      const [sort_rank, run_at, ...id] = head.split(' ')
      return [{ id: id.join(' '), limit_key, sort_rank: sort_rank!, run_at: run_at! }]
    })
    return heads.sort(byOrder).slice(0, count)
  }

  /** The first jobs of each of these keys, up to the given count each; a few thousand at most. */
  async firsts(keys: readonly (readonly [key: string, count: number])[]): Promise<readonly Waiting[]> {
    const some = keys.slice(0, maxRefilled)
    if (some.length === 0) return []
    const { tables, namespace } = this.#store
    const [kind, kinds] = this.#ofKinds('')
    const most = Math.max(1, Math.floor(maxRefill / some.length))
    const one = `(SELECT id, limit_key, limit_rank AS sort_rank, limit_at AS run_at
        FROM ${tables.queue} FORCE INDEX (job_queue_limit)
        WHERE namespace = ? AND queue = ? AND limit_ready = 1 AND limit_key = ?${kind}
        ORDER BY limit_rank, limit_at, id LIMIT ?)`
    return this.#rows([
      some.map(() => one).join(' UNION ALL '),
      some.flatMap(([key, count]) => [namespace, this.#queue, key, ...kinds, Math.min(count, most)]),
    ])
  }

  #selectLine(limitKey: string, where: string, count: number): Statement {
    const { tables, namespace } = this.#store
    const kinds = this.#kinds
    return [
      `SELECT id, ${limitKey}, sort_rank, sort_at AS run_at FROM ${tables.queue} FORCE INDEX (job_queue_order)
        WHERE namespace = ? AND queue = ? AND state = 'ready'${where}${kinds === null ? '' : ' AND kind IN (?)'}
        ORDER BY sort_rank, sort_at, id LIMIT ?`,
      [namespace, this.#queue, ...(kinds === null ? [] : [kinds]), count],
    ]
  }

  /** By the number in the index first; names that share one are told apart in the row. */
  #ofKinds(of: string): Statement {
    const kinds = this.#kinds
    if (kinds === null) return ['', []]
    const numbers = kinds.map(() => 'CRC32(?)').join(', ')
    return [` AND ${of}limit_kind IN (${numbers}) AND ${of}kind IN (?)`, [...kinds, kinds]]
  }

  #rows<Row = Waiting>([sql, values]: Statement): Promise<Row[]> {
    return this.#call.rows<Row>(sql, values)
  }
}

interface Some {
  readonly keys: readonly string[]
  readonly isEnd: boolean
}
