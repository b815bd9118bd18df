import { type Backend, openBackend } from './backends/open.ts'
import { SignalboxError } from './core/errors.ts'
import { duration, flag, onlyKeys, text } from './core/options.ts'
import { createJobs, createUpkeep, type Jobs } from './jobs/index.ts'
import { createLocks, type Locks } from './locks/index.ts'
import type { RemoteBox, RemoteOpenOptions, RemoteUrl } from './remote/index.ts'

/** What `open` can be told. */
export interface OpenOptions {
  /** Everything in the store carries it; boxes of different namespaces do not see each other. @default 'default' */
  readonly namespace?: string | undefined
  /** Bring the schema of a Postgres or MariaDB up to date first; SQLite and memory always do. @default false */
  readonly migrate?: boolean | undefined
  /** Forget jobs that ended longer ago than that. @default never */
  readonly retentionMs?: number | string | undefined
  /**
   * SQLite: write in a thread of its own, so that no fsync stops this one. For a server: `job.transaction` and a
   * `tx` of yours are refused then. Other engines ignore it. @default false
   */
  readonly thread?: boolean | undefined
  /** A redis:// or rediss:// URL: Redis holds the locks then, and all else stays in the store. @default none */
  readonly redis?: string | undefined
}

/** All the rooms, on one store. */
export interface Box extends AsyncDisposable {
  readonly jobs: Jobs
  readonly locks: Locks
  /** The store itself, for a server to serve. */
  readonly backend: Backend
  /** What is weak about the store's settings, in words; empty when all is well. */
  readonly warnings: readonly string[]
  /** Whether the store answers; throws `store_unavailable` when it does not. */
  ping(): Promise<void>
  /** Stops the workers made here and closes the store. */
  close(): Promise<void>
}

/**
 * Opens a store and everything in it: `memory:`, `sqlite:FILE`, `postgres://…`, `mysql://…` (MariaDB).
 *
 *     await using box = await open('sqlite:signalbox.db')
 */
export function open<Url extends string>(
  url: Url & (Url extends RemoteUrl ? never : unknown),
  options?: OpenOptions,
): Promise<Box>
/**
 * Opens a box on a server: the same verbs, but for transactions.
 *
 *     await using box = await open('http://127.0.0.1:7420', { token })
 */
export function open(url: RemoteUrl, options?: RemoteOpenOptions): Promise<RemoteBox>
export async function open(
  url: string,
  options: OpenOptions | RemoteOpenOptions = {},
): Promise<Box | RemoteBox> {
  if (typeof url === 'string' && /^https?:\/\//.test(url))
    return (await import('./remote/index.ts')).openRemote(url, options as RemoteOpenOptions)
  return openStore(url, options as OpenOptions)
}

async function openStore(url: string, options: OpenOptions): Promise<Box> {
  onlyKeys('open', options, ['namespace', 'migrate', 'retentionMs', 'thread', 'redis'])
  if (typeof url !== 'string')
    throw new SignalboxError('invalid_argument', 'open takes a URL, such as "sqlite:signalbox.db".')
  const { namespace = 'default', migrate = false, retentionMs, thread = false, redis } = options
  const keepMs = retentionMs === undefined ? undefined : duration('open.retentionMs', retentionMs)
  const backend = await openBackend(url, {
    namespace: text('open.namespace', namespace),
    migrate: flag('open.migrate', migrate) || /^(memory|sqlite):/.test(url),
    thread: flag('open.thread', thread),
    redis,
  })
  return createBox(backend, keepMs)
}

function createBox(backend: Backend, retentionMs: number | undefined): Box {
  const jobs = createJobs({ store: backend.jobs, bell: backend.bell })
  const { locks: store, bell, traits } = backend
  const locks = createLocks({ store, bell, remoteBell: traits.remoteBell })
  const upkeep = retentionMs === undefined ? undefined : createUpkeep(backend.jobs, retentionMs)
  let closed: Promise<void> | undefined

  async function close(): Promise<void> {
    try {
      await jobs[Symbol.asyncDispose]()
      await locks[Symbol.asyncDispose]()
      await upkeep?.[Symbol.asyncDispose]()
    } finally {
      await backend.close()
    }
  }

  return {
    jobs,
    locks,
    backend,
    warnings: backend.warnings,
    ping: () => backend.ping(),
    close: () => {
      closed ??= close()
      return closed
    },
    [Symbol.asyncDispose]() {
      return this.close()
    },
  }
}
