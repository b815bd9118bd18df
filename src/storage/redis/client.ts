import { createClient, type RedisClientType } from '@redis/client'
import { SignalboxError } from '../../core/errors.ts'
import { noAnswer } from './failures.ts'
import type { Script } from './scripts/script.ts'

/** One connection, as the driver has it. A lost connection is final: its owner opens another. */
export type Client = RedisClientType<None, None, None, 2, None>

type None = Record<never, never>

/** How long it may take until a connection is there and has been greeted. */
export const connectMs = 5_000
/** The same for one that replaces a lost one: less than a call may take, so that those who wait see a second try. */
export const reconnectMs = 2_000

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
export async function openClient(
  url: string,
  greet: (client: Client) => Promise<void>,
  lost: (client: Client) => void,
  limitMs: number = connectMs,
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
