import { resolveRedactPaths } from '../../../core/redact-paths.ts'
import {
  type AttemptStore,
  bulkQueue,
  ForwardingJobStore,
  fingerprintError,
  isSealed,
  type JobRecord,
  type JobStore,
  type ListQuery,
} from '../../../jobs/index.ts'
import { hidden } from '../log/log-line.ts'

/**
 * Hides the values that operators named wherever the server shows jobs: single jobs, lists and schedules. Searches look
 * only at visible values, so a search cannot reveal a hidden one. Workers that claim a job get it whole.
 */
export interface Redactor {
  /** The same store, whose jobs come hidden in part when they are looked at, and whole when they are claimed. */
  store(store: JobStore): JobStore
  /** The same for attempts and groups of errors. */
  attempts(store: AttemptStore): AttemptStore
  /** A payload as it may be shown. */
  payload(value: unknown): unknown
  /** A result as it may be shown. */
  result(value: unknown): unknown
  /** An error as it may be shown. */
  error<Shown extends object | null>(error: Shown): Shown
}

/** Shows everything. */
export const noRedactor: Redactor = {
  store: (store) => store,
  attempts: (store) => store,
  payload: (value) => value,
  result: (value) => value,
  error: (value) => value,
}

/** No value that was taken is deeper; one that was written by hand may be. */
const maxDepth = 64
type Path = readonly string[]

/** A name, or a place in a list, on the way to a value. */
interface Step {
  readonly name: string
  /** Places need not be named: lists are passed through. */
  readonly isPlace: boolean
}

/**
 * Makes a redactor of paths such as `password`, `card.number` or `payload.*.secret`. A path is the end of the way to a
 * value, which begins with `payload`, `result` or `error`; `*` is any one name. Lists are passed through, and upper and
 * lower case are the same.
 *
 * A path that can be read in two ways is read in both, because its author wants the value hidden: `items.secret`,
 * `items.*.secret` and `items.0.secret` all reach into the list of items, and `card.number` is also the field of that
 * very name.
 */
export function createRedactor(paths: readonly string[]): Redactor {
  if (paths.length === 0) return noRedactor
  const endings = resolveRedactPaths('redact', paths).map((path) => path.toLowerCase().split('.'))
  const byLastName = Map.groupBy(endings, (ending) => ending.at(-1)!)
  /** Checks only endings whose last name is the value's own name: for the others, a surrounding value is hidden already. */
  const isHidden = (way: readonly Step[]): boolean => {
    const { name } = way.at(-1)!
    const lastNames = new Set(['*', name, name.slice(name.lastIndexOf('.') + 1)])
    for (const last of lastNames)
      if (byLastName.get(last)?.some((ending) => endsWith(way, ending))) return true
    return false
  }

  function walk(value: unknown, way: readonly Step[], depth: number): unknown {
    if (isHidden(way) || depth > maxDepth) return hidden
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) {
      return value.map((item, at) => walk(item, [...way, { name: String(at), isPlace: true }], depth + 1))
    }
    // By way of entries: a name may be `__proto__`.
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, walk(item, [...way, named(name)], depth + 1)]),
    )
  }

  function redactText(part: 'payload' | 'result', json: string): string {
    // A client that can open it has the key; for all others it is hidden already.
    if (isSealed(json)) return json
    const parsed = parse(json)
    // What is no JSON stays none, and has nothing to find in it.
    return parsed === undefined ? hidden : JSON.stringify(walk(parsed.value, [named(part)], 0))
  }

  function redactError(json: string): string {
    const value = parse(json)?.value
    const error = typeof value === 'object' && value !== null ? value : { message: json }
    const shown = walk(error, [named('error')], 0)
    if (typeof shown !== 'object') return JSON.stringify({ message: hidden })
    // A stack begins with the message.
    const isTold = (shown as { message?: unknown }).message !== hidden
    return JSON.stringify(isTold || !('stack' in (shown as object)) ? shown : { ...shown, stack: hidden })
  }

  function redactRecord(record: JobRecord): JobRecord {
    // Signalbox's own orders are in there, and it reads them by looking.
    if (record.queue === bulkQueue) return record
    return {
      ...record,
      payload: redactText('payload', record.payload),
      result: record.result === null ? null : redactText('result', record.result),
      error: record.error === null ? null : redactError(record.error),
      hiddenAs: hidden,
      ...(record.error === null ? {} : { errorGroup: fingerprintError(record.kind, record.error) }),
    }
  }

  return {
    payload: (value) => walk(value, [named('payload')], 0),
    result: (value) => walk(value, [named('result')], 0),
    error: <Shown extends object | null>(error: Shown) =>
      error && (JSON.parse(redactError(JSON.stringify(error))) as Shown),
    store: (store) => new RedactedJobStore(store, redactRecord),
    attempts: (store) => {
      const show = <Record extends { readonly error: string }>(record: Record): Record => ({
        ...record,
        shownError: redactError(record.error),
      })
      return {
        uncounted: (limit) => store.uncounted(limit),
        count: (attempts) => store.count(attempts),
        prune: (request) => store.prune(request),
        list: async (jobId) => (await store.list(jobId)).map(show),
        groups: async (query) => (await store.groups(query)).map(show),
        async group(fingerprint) {
          const group = await store.group(fingerprint)
          return group && show(group)
        },
      }
    },
  }
}

/** A store whose reads show no hidden values. */
class RedactedJobStore extends ForwardingJobStore {
  readonly #redact: (record: JobRecord) => JobRecord

  constructor(store: JobStore, redact: (record: JobRecord) => JobRecord) {
    super(store)
    this.#redact = redact
  }

  override async find(id: string): Promise<JobRecord | undefined> {
    const record = await this.inner.find(id)
    return record && this.#redact(record)
  }

  override async list(query: ListQuery): Promise<readonly JobRecord[]> {
    return (await this.inner.list(query)).map(this.#redact)
  }
}

function named(name: string): Step {
  return { name: name.toLowerCase(), isPlace: false }
}

/**
 * Whether the way ends so. Backwards, with all that may still be missing of the ending at once, a bit for each number
 * of names: so no nest of lists and no row of `*` makes it slow.
 */
function endsWith(way: readonly Step[], ending: Path): boolean {
  let open = 1 << ending.length
  for (let at = way.length - 1; at >= 0 && open !== 0; at--) {
    const { name, isPlace } = way[at]!
    let next = isPlace ? open : 0
    for (let missing = 1; missing <= ending.length; missing++) {
      if ((open & (1 << missing)) === 0) continue
      if (isNamed(name, ending[missing - 1]!)) next |= 1 << (missing - 1)
      const count = name.includes('.') ? countNamed(name, ending, missing) : 0
      if (count > 0) next |= 1 << (missing - count)
    }
    if ((next & 1) === 1) return true
    open = next
  }
  return false
}

function isNamed(name: string, wanted: string): boolean {
  return wanted === '*' || wanted === name
}

/** How many names up to there a name with dots stands for: as many as it has, or all that are missing; else none. */
function countNamed(dotted: string, ending: Path, missing: number): number {
  const names = dotted.split('.').slice(-missing)
  const from = missing - names.length
  return names.every((name, index) => isNamed(name, ending[from + index]!)) ? names.length : 0
}

function parse(json: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(json) }
  } catch {
    return undefined
  }
}
