import { createClient, ErrorReply, type RedisClientType } from '@redis/client'
import { patientClock, within } from '../../core/clock.ts'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import type { Script } from './scripts/script.ts'

/** One connection, as the driver has it. A lost connection is final: its owner opens another. */
export type Client = RedisClientType<None, None, None, 2, None>

type None = Record<never, never>

/** How long it may take until a first connection is there and has been greeted. */
const connectMs = 5_000
/** The same for one that replaces a lost one: less than a call may take, so that those who wait see a second try. */
const reconnectMs = 2_000

/** What becomes of a connection. */
export interface ClientLife {
  /** Speaks to the server before anybody else does. */
  greet(client: Client): Promise<void>
  /** It is there, again or for the first time. */
  opened(client: Client): void
  /** It could not be made now; it is tried again. */
  failed?(error: unknown): void
  /** Whether it still works, and leads to the same server. Asked every `watchMs`. */
  isWell(client: Client): Promise<boolean>
  readonly watchMs: number
}

/** A connection that is replaced when it is lost, after longer and longer pauses, until it is closed. */
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

  /** The connection, while there is one. */
  get client(): Client | undefined {
    return this.#client
  }

  /** Makes the first connection; throws when it cannot be had. */
  async open(): Promise<void> {
    await this.#connect(connectMs)
  }

  /** Makes the first connection, as soon as it can be had. */
  openSoon(): void {
    this.#tryLater()
  }

  /** This one does not work any more. */
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
    this.#watch = setInterval(() => void this.#look(client), watchMs)
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

  /** What does not answer in time will not: the connection is only half there. */
  async #look(client: Client): Promise<void> {
    const isWell = this.#life.isWell(client).catch(() => false)
    if (!(await within(lookMs, isWell, () => false, patientClock))) this.lost(client)
  }
}

const lookMs = 5_000

/** Refuses an address that is none; says so without showing it, for it may hold a password. */
export function checkAddress(url: string): void {
  try {
    const { protocol, hostname, pathname, search } = new URL(url)
    const isWhole = /^rediss?:$/.test(protocol) && hostname !== '' && search === ''
    if (isWhole && /^\/?(\d{1,5})?$/.test(pathname)) return
  } catch {
    // As below.
  }
  throw new SignalboxError(
    'invalid_argument',
    'The Redis address is not a URL like redis://user:password@host:6379/0 (rediss:// for TLS).',
  )
}

/** Opens a connection and greets the server; `lost` is called once, when it ends in any way but by `hangUp`. */
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
    // Both are done by us: what is not answered is judged by its own deadline, and told apart from what was not sent.
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
  // No connection keeps a process alive that has nothing else to do; a call under way does.
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

/** Not politely: a connection that does not answer would keep us waiting. What was not answered fails. */
export function hangUp(client: Client): void {
  client.removeAllListeners('error')
  client.on('error', () => undefined)
  client.destroy()
}

/** Runs a script by its hash, and with its text where the server does not know it yet or any more. */
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
    // Nothing was done, so this is the first time.
    return (await client.sendCommand(['EVAL', text, ...rest])) as Reply
  }
}

/**
 * What a call that failed means to the caller. Redis's own words are kept as `cause`; the messages here name no address,
 * for addresses carry passwords.
 */

/** The first word of what Redis said, which is its code; undefined when it said nothing. */
export function replyCode(error: unknown): string | undefined {
  return error instanceof ErrorReply ? error.message.split(' ', 1)[0] : undefined
}

/** What others do to it may pass in a moment. */
const busyCodes: ReadonlySet<string> = new Set(['BUSY', 'TRYAGAIN'])

/** The server is not, or no longer, the one to talk to: another connection may find the one that is. */
const wrongServerCodes: ReadonlySet<string> = new Set(['READONLY', 'MASTERDOWN', 'LOADING', 'UNKILLABLE'])

/** Whether a connection that gets this answer had better be made anew. */
export function isStranger(error: unknown): boolean {
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

/** The error a store's call ends in. */
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
    `Redis did not answer within ${ms} ms, so it is not known whether the call took. Ask again when it is back.`,
  )
}
