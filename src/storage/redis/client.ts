import { createClient, ErrorReply, type RedisClientType } from '@redis/client'
import { patientClock, within } from '../../core/clock.ts'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import type { Script } from './scripts/script.ts'

/** One connection of the driver. A lost connection is never reused: its owner opens another. */
export type Client = RedisClientType<None, None, None, 2, None>

type None = Record<never, never>

/** The time limit for the first connection, including its greeting. */
const connectMs = 5_000
/**
 * The time limit for a connection that replaces a lost one. It is shorter than a call, so that waiting calls see a
 * second try.
 */
const reconnectMs = 2_000

/** The events of a connection. */
export interface ClientLife {
  /** Runs the first commands on a new connection. */
  greet(client: Client): Promise<void>
  /** A connection is ready, for the first time or again. */
  opened(client: Client): void
  /** Connecting failed; the client tries again. */
  failed?(error: unknown): void
  /** Whether the connection works and still leads to the same server. Called every `watchMs`. */
  isWell(client: Client): Promise<boolean>
  readonly watchMs: number
}

/** A connection that is replaced when it is lost, after growing pauses, until it is closed. */
export class LastingClient {
  readonly #url: string
  readonly #life: ClientLife
  #client: Client | undefined
  #retry: NodeJS.Timeout | undefined
  #watch: NodeJS.Timeout | undefined
  #failures = 0
  #isClosed = false

  constructor(url: string, life: ClientLife) {
    this.#url = url
    this.#life = life
  }

  /** The current connection, if any. */
  get client(): Client | undefined {
    return this.#client
  }

  /** Opens the first connection. Throws if that fails. */
  async open(): Promise<void> {
    await this.#connect(connectMs)
  }

  /** Opens the first connection in the background, and retries until it succeeds. */
  openSoon(): void {
    this.#tryLater()
  }

  /** Reports that this connection no longer works. */
  lost(client: Client): void {
    if (this.#client !== client) return
    this.#client = undefined
    clearInterval(this.#watch)
    hangUp(client)
    this.#tryLater()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#retry)
    clearInterval(this.#watch)
    if (this.#client) hangUp(this.#client)
    this.#client = undefined
  }

  async #connect(limitMs: number): Promise<void> {
    const { greet, watchMs } = this.#life
    const client = await openClient(this.#url, greet, (lost) => this.lost(lost), limitMs)
    if (this.#isClosed) return hangUp(client)
    this.#failures = 0
    this.#client = client
    this.#watch = setInterval(() => void this.#check(client), watchMs)
    this.#watch.unref()
    this.#life.opened(client)
  }

  #tryLater(): void {
    if (this.#isClosed || this.#retry !== undefined) return
    const ms =
      this.#failures === 0 ? 0 : Math.min(50 * 2 ** this.#failures, 2_000) * (0.75 + Math.random() / 2)
    this.#failures++
    this.#retry = setTimeout(() => {
      this.#connect(reconnectMs)
        .finally(() => {
          this.#retry = undefined
        })
        .catch((error) => {
          this.#life.failed?.(error)
          this.#tryLater()
        })
    }, ms)
    this.#retry.unref()
  }

  /** A connection that does not answer in time is half open: give it up. */
  async #check(client: Client): Promise<void> {
    const isWell = this.#life.isWell(client).catch(() => false)
    if (!(await within(checkMs, isWell, () => false, patientClock))) this.lost(client)
  }
}

const checkMs = 5_000

/** Refuses an invalid address without showing it, because it may contain a password. */
export function checkAddress(url: string): void {
  try {
    const { protocol, hostname, pathname, search } = new URL(url)
    const isWhole = /^rediss?:$/.test(protocol) && hostname !== '' && search === ''
    if (isWhole && /^\/?(\d{1,5})?$/.test(pathname)) return
  } catch {
    // The error below.
  }
  throw new SignalboxError(
    'invalid_argument',
    'The Redis address is not a URL like redis://user:password@host:6379/0 (rediss:// for TLS).',
  )
}

/** Opens a connection and greets the server. Calls `lost` once when the connection ends, except after `hangUp`. */
async function openClient(
  url: string,
  greet: (client: Client) => Promise<void>,
  lost: (client: Client) => void,
  limitMs: number,
): Promise<Client> {
  const client = createClient({
    url,
    RESP: 2,
    name: 'signalbox',
    // Signalbox does both itself: each call has its own deadline, and the store must know whether a call was sent.
    disableOfflineQueue: true,
    commandOptions: { timeout: 0 },
    disableClientInfo: true,
    maintNotifications: 'disabled',
    socket: { connectTimeout: limitMs, reconnectStrategy: false },
  })
  let isOpen = false
  client.on('error', () => {
    if (!isOpen) return
    isOpen = false
    lost(client)
  })
  // An idle connection does not keep the process alive, but a call in progress does.
  client.unref()
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(noAnswer(limitMs)), limitMs)
  try {
    await Promise.race([client.connect().then(() => greet(client)), late])
    isOpen = true
    return client
  } catch (error) {
    hangUp(client)
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** Closes without waiting, because the server may not answer. Unanswered calls fail. */
export function hangUp(client: Client): void {
  client.removeAllListeners('error')
  client.on('error', () => undefined)
  client.destroy()
}

/** Runs a script by its hash, or with its text if the server does not know it (any longer). */
export async function runScript<Reply>(
  client: Client,
  { hash, text }: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<Reply> {
  const rest = [`${keys.length}`, ...keys, ...args]
  try {
    return (await client.sendCommand(['EVALSHA', hash, ...rest])) as Reply
  } catch (error) {
    if (!String((error as Error).message).startsWith('NOSCRIPT')) throw error
    // The first call did nothing, so this is not a repetition.
    return (await client.sendCommand(['EVAL', text, ...rest])) as Reply
  }
}

/**
 * Translates the error of a failed call. Redis's own message stays in `cause`. The messages here contain no address,
 * because an address may contain a password.
 */

/** The first word of Redis's error message, which is its code. Undefined: Redis did not answer. */
export function replyCode(error: unknown): string | undefined {
  return error instanceof ErrorReply ? error.message.split(' ', 1)[0] : undefined
}

/** Redis is busy for a moment. */
const busyCodes: ReadonlySet<string> = new Set(['BUSY', 'TRYAGAIN'])

/** This server is not, or no longer, the right one. A new connection may find the right one. */
const wrongServerCodes: ReadonlySet<string> = new Set(['READONLY', 'MASTERDOWN', 'LOADING', 'UNKILLABLE'])

/** Whether the error means that the connection should be replaced. */
export function needsNewConnection(error: unknown): boolean {
  return wrongServerCodes.has(replyCode(error) ?? '')
}

const refusals: Readonly<Record<string, string>> = {
  OOM: 'Redis is out of memory and refuses writes. Raise its maxmemory or free some.',
  MISCONF: 'Redis refuses writes because it cannot save its data. Look at its log and its disk.',
  NOREPLICAS: 'Redis refuses writes because too few replicas follow it.',
  READONLY: 'This Redis is a replica and takes no writes. Give the address of the primary.',
  NOAUTH: 'Redis asks for a password. Put it in the address.',
  WRONGPASS: 'Redis does not know this user and password.',
  NOPERM:
    'This user of Redis may not do what Signalbox needs: scripts, keys and channels that begin with "signalbox:".',
  MOVED:
    'This address is one node of a Redis Cluster and does not have the key. Give one that serves all of it.',
  CLUSTERDOWN: 'This Redis Cluster does not serve all its slots now. Look at its nodes.',
  LOADING: 'Redis is still reading its data from disk. Try again when it is done.',
}

/** The error with which a store's call fails. */
export function toStoreError(error: unknown): SignalboxError {
  if (isSignalboxError(error)) return error as SignalboxError
  const code = replyCode(error) ?? ''
  if (busyCodes.has(code)) {
    return new SignalboxError(
      'store_busy',
      'Redis is busy with a long script of another client. Try again.',
      {
        cause: error,
      },
    )
  }
  const words = refusals[code] ?? 'Redis cannot be reached or refused the call; the cause says why.'
  return new SignalboxError('store_unavailable', words, { cause: error })
}

export function noAnswer(ms: number): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `Redis did not answer within ${ms} ms, so the outcome of the call is unknown. Check it when Redis is back.`,
  )
}
