import { resolveRedactPaths } from '../core/redactpaths.ts'
import { isSealed, type JobRecord, type JobStore } from '../jobs/index.ts'
import { hidden } from './redact.ts'

/**
 * Hides what operators named of that which jobs carry, wherever the server shows jobs: one by one, in lists, in
 * schedules; and from searches, which look at what is shown, so that nobody finds out by asking. Workers that claim a
 * job get it whole.
 */
export interface Redactor {
  /** The same store, whose jobs come hidden in part when they are looked at, and whole when they are claimed. */
  store(store: JobStore): JobStore
  /** A payload as it may be shown. */
  payload(value: unknown): unknown
}

/** Shows everything. */
export const noRedactor: Redactor = { store: (store) => store, payload: (value) => value }

/** No value that was taken is deeper; one that was written by hand may be. */
const maxDepth = 64
/** Signalbox's own orders are in there, and it reads them by looking. */
const bulkQueue = 'signalbox.bulk'

type Path = readonly string[]

/**
 * Makes a redactor of paths such as `password`, `card.number` or `payload.*.secret`. A path is the end of the way to a
 * value, which begins with `payload`, `result` or `error`; `*` is any one name. Lists are passed through, and upper and
 * lower case are the same.
 */
export function createRedactor(paths: readonly string[]): Redactor {
  if (paths.length === 0) return noRedactor
  const endings = resolveRedactPaths('redact', paths).map((path) => path.toLowerCase().split('.'))
  const isHidden = (way: Path): boolean => endings.some((ending) => endsWith(way, ending))

  function walk(value: unknown, way: Path, depth: number): unknown {
    if (isHidden(way) || depth > maxDepth) return hidden
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map((item) => walk(item, way, depth + 1))
    // By way of entries: a name may be `__proto__`.
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [
        name,
        walk(item, [...way, name.toLowerCase()], depth + 1),
      ]),
    )
  }

  function redactText(part: 'payload' | 'result', json: string): string {
    // Whoever can open it has the key; to all others it is hidden already.
    if (isSealed(json)) return json
    const parsed = parse(json)
    // What is no JSON stays none, and has nothing to find in it.
    return parsed === undefined ? hidden : JSON.stringify(walk(parsed.value, [part], 0))
  }

  function redactError(json: string): string {
    const value = parse(json)?.value
    const error = typeof value === 'object' && value !== null ? value : { message: json }
    const shown = walk(error, ['error'], 0)
    if (typeof shown !== 'object') return JSON.stringify({ message: hidden })
    // A stack begins with the message.
    const isTold = (shown as { message?: unknown }).message !== hidden
    return JSON.stringify(isTold || !('stack' in (shown as object)) ? shown : { ...shown, stack: hidden })
  }

  function redactRecord(record: JobRecord): JobRecord {
    if (record.queue === bulkQueue) return record
    return {
      ...record,
      payload: redactText('payload', record.payload),
      result: record.result === null ? null : redactText('result', record.result),
      error: record.error === null ? null : redactError(record.error),
    }
  }

  return {
    payload: (value) => walk(value, ['payload'], 0),
    store: (store) => {
      const find: JobStore['find'] = async (id) => {
        const record = await store.find(id)
        return record && redactRecord(record)
      }
      const list: JobStore['list'] = async (query) => (await store.list(query)).map(redactRecord)
      return new Proxy(store, {
        get(target, name) {
          if (name === 'find') return find
          if (name === 'list') return list
          const value: unknown = Reflect.get(target, name, target)
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
    },
  }
}

function endsWith(way: Path, ending: Path): boolean {
  const from = way.length - ending.length
  return from >= 0 && ending.every((name, index) => name === '*' || name === way[from + index])
}

function parse(json: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(json) }
  } catch {
    return undefined
  }
}
