import { resolveRedactPaths } from '../../../core/redact-paths.ts'
import {
  type AttemptStore,
  bulkQueue,
  fingerprintError,
  forwardJobStore,
  isSealed,
  type JobRecord,
  type JobStore,
} from '../../../jobs/index.ts'
import { hidden } from '../log/log-line.ts'

/**
 * Hides the values that operators named, wherever the server shows jobs: single jobs, lists and schedules. Searches
 * read only visible values, so a search cannot reveal a hidden one. Workers that claim a job get all values.
 */
export interface Redactor {
  /** A store whose reads hide values. Claims return all values. */
  store(store: JobStore): JobStore
  /** A store of attempts and groups of errors whose reads hide values. */
  attempts(store: AttemptStore): AttemptStore
  /** Hides values of a payload. */
  payload(value: unknown): unknown
  /** Hides values of a result. */
  result(value: unknown): unknown
  /** Hides values of an error. */
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

/** The API accepts no deeper value. A value written directly to the database may be deeper, and is hidden there. */
const maxDepth = 64
type Path = readonly string[]

/** A name or a list index on the path to a value. */
interface Step {
  readonly name: string
  /** A redact path may leave out list indexes. */
  readonly isIndex: boolean
}

/**
 * Creates a redactor from paths such as `password`, `card.number` or `payload.*.secret`. A redact path matches the end
 * of the path to a value, which begins with `payload`, `result` or `error`. `*` matches any one name. A path may leave
 * out list indexes, and ignores upper and lower case.
 *
 * An ambiguous path matches in both readings, because its author wants the value hidden: `items.secret`,
 * `items.*.secret` and `items.0.secret` all match inside the list of items. `card.number` also matches a field whose
 * name is `card.number`.
 */
export function createRedactor(paths: readonly string[]): Redactor {
  if (paths.length === 0) return noRedactor
  const endings = resolveRedactPaths('redact', paths).map((path) => path.toLowerCase().split('.'))
  const byLastName = Map.groupBy(endings, (ending) => ending.at(-1)!)
  /** Checks only paths that end in the value's own name. For all others, a surrounding value is hidden already. */
  const isHidden = (path: readonly Step[]): boolean => {
    const { name } = path.at(-1)!
    const lastNames = new Set(['*', name, name.slice(name.lastIndexOf('.') + 1)])
    for (const last of lastNames)
      if (byLastName.get(last)?.some((ending) => endsWith(path, ending))) return true
    return false
  }

  function walk(value: unknown, path: readonly Step[], depth: number): unknown {
    if (isHidden(path) || depth > maxDepth) return hidden
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) {
      return value.map((item, at) => walk(item, [...path, { name: String(at), isIndex: true }], depth + 1))
    }
    // Uses entries, because a name may be `__proto__`.
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, walk(item, [...path, named(name)], depth + 1)]),
    )
  }

  function redactText(part: 'payload' | 'result', json: string): string {
    // Clients without the key cannot read a sealed value.
    if (isSealed(json)) return json
    const parsed = parse(json)
    // Hides a text that is not JSON.
    return parsed === undefined ? hidden : JSON.stringify(walk(parsed.value, [named(part)], 0))
  }

  function redactError(json: string): string {
    const value = parse(json)?.value
    const error = typeof value === 'object' && value !== null ? value : { message: json }
    const shown = walk(error, [named('error')], 0)
    if (typeof shown !== 'object') return JSON.stringify({ message: hidden })
    // A stack begins with the message, so a hidden message hides the stack too.
    const isMessageShown = (shown as { message?: unknown }).message !== hidden
    return JSON.stringify(
      isMessageShown || !('stack' in (shown as object)) ? shown : { ...shown, stack: hidden },
    )
  }

  function redactRecord(record: JobRecord): JobRecord {
    // The bulk queue holds commands of Signalbox itself, which the server reads through this store.
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
    store: (store) => ({
      ...forwardJobStore(store),
      async find(id) {
        const record = await store.find(id)
        return record && redactRecord(record)
      },
      list: async (query) => (await store.list(query)).map(redactRecord),
    }),
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

function named(name: string): Step {
  return { name: name.toLowerCase(), isIndex: false }
}

/**
 * Whether the path to a value ends with this redact path. Compares backwards and follows all readings at once: bit n of
 * `open` means that n names of the redact path are still unmatched. So neither nested lists nor many `*` make it slow.
 */
function endsWith(path: readonly Step[], ending: Path): boolean {
  let open = 1 << ending.length
  for (let at = path.length - 1; at >= 0 && open !== 0; at--) {
    const { name, isIndex } = path[at]!
    let next = isIndex ? open : 0
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

/** How many unmatched names a name with dots matches: as many as it has parts, at most all unmatched ones, or 0. */
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
