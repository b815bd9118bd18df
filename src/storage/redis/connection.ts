import { ClientClosedError, ClientOfflineError } from '@redis/client'
import { SignalboxError } from '../../core/errors.ts'
import { type Meter, noMeter } from '../../core/meter.ts'
import {
  type Client,
  checkAddress,
  LastingClient,
  needsNewConnection,
  noAnswer,
  replyCode,
  runScript,
  toStoreError,
} from './client.ts'
import type { Script } from './scripts/script.ts'

/** Checks of the server, on each new connection and from time to time. */
export interface Greeter {
  /** Runs the first commands on a new connection. */
  greet(client: Client): Promise<void>
  /** Whether the connection leads to the greeted server: behind a proxy the server may have been replaced. */
  isKnown(client: Client): Promise<boolean>
}

/** The part of a connection that runs scripts. */
export type ScriptRunner = Pick<Connection, 'run'>

/**
 * The only connection for all commands of a store. Calls share it without waiting for each other. Each call has a
 * deadline, and gets an answer or a typed error by then. The store replaces a lost connection, and unsent calls wait
 * for the new one. A call that was sent but not answered may have been executed, so only steps that can be repeated
 * safely are sent again.
 */
export class Connection {
  readonly #lasting: LastingClient
  readonly #meter: Meter
  readonly #callKind: number
  /** Calls that wait for a connection. */
  #waiting: PromiseWithResolvers<Client> | undefined
  /** The reason why there is no connection now. */
  #connectError: unknown
  #active = 0
  #onIdle: (() => void) | undefined
  #closed: Promise<void> | undefined

  constructor(url: string, greeter: Greeter, meter: Meter = noMeter) {
    checkAddress(url)
    this.#meter = meter
    this.#callKind = meter.kind('redis.call')
    this.#lasting = new LastingClient(url, {
      greet: (client) => greeter.greet(client),
      isWell: (client) => greeter.isKnown(client),
      opened: (client) => {
        this.#connectError = undefined
        this.#waiting?.resolve(client)
        this.#waiting = undefined
      },
      failed: (error) => {
        this.#connectError = error
      },
      watchMs: 15_000,
    })
  }

  /** Opens the first connection. Throws if that fails. */
  async open(): Promise<void> {
    await this.#lasting.open().catch((error) => {
      throw toStoreError(error)
    })
  }

  /** Sends a command. `again` is the command for a repetition; without it the command is sent at most once. */
  send<Reply>(command: readonly string[], again?: readonly string[]): Promise<Reply> {
    return this.#within(
      (client, isAgain) => client.sendCommand<Reply>([...(isAgain ? again! : command)]),
      again !== undefined,
    )
  }

  /** Runs a script. `again`: its arguments for a repetition, as above. */
  run<Reply>(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    again?: readonly string[],
  ): Promise<Reply> {
    return this.#within(
      (client, isAgain) => runScript<Reply>(client, script, keys, isAgain ? again! : args),
      again !== undefined,
    )
  }

  /** Waits for calls in progress, up to a limit. */
  close(): Promise<void> {
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    if (this.#active > 0) {
      const { promise: idle, resolve } = Promise.withResolvers<void>()
      this.#onIdle = resolve
      const timer = setTimeout(resolve, closeMs)
      await idle
      clearTimeout(timer)
    }
    this.#waiting?.reject(refusal())
    this.#lasting.close()
  }

  async #within<Reply>(
    call: (client: Client, isAgain: boolean) => Promise<Reply>,
    mayRepeat: boolean,
  ): Promise<Reply> {
    if (this.#closed) throw refusal()
    this.#active++
    const ticket = this.#meter.begin(this.#callKind)
    const { promise: late, reject } = Promise.withResolvers<never>()
    const timer = setTimeout(() => reject(lateness), callMs)
    let isAgain = false
    try {
      while (true) {
        const client = this.#lasting.client ?? (await Promise.race([this.#whenReady(), late]))
        this.#meter.enter(ticket)
        try {
          return await Promise.race([call(client, isAgain), late])
        } catch (error) {
          // After this delay an answer may never come: give up the connection, and all calls that wait on it.
          if (error === lateness || needsNewConnection(error)) this.#lasting.lost(client)
          if (error === lateness || replyCode(error) !== undefined || error instanceof TypeError) throw error
          const isUnsent = error instanceof ClientOfflineError || error instanceof ClientClosedError
          if (!isUnsent && !mayRepeat) throw error
          isAgain ||= !isUnsent
          this.#lasting.lost(client)
        }
      }
    } catch (error) {
      if (error !== lateness) throw toStoreError(error)
      throw this.#lasting.client || this.#connectError === undefined
        ? noAnswer(callMs)
        : toStoreError(this.#connectError)
    } finally {
      clearTimeout(timer)
      this.#meter.leave(ticket)
      this.#active--
      if (this.#active === 0) this.#onIdle?.()
    }
  }

  #whenReady(): Promise<Client> {
    if (this.#closed) throw refusal()
    if (this.#waiting === undefined) {
      this.#waiting = Promise.withResolvers<Client>()
      this.#waiting.promise.catch(() => undefined)
    }
    return this.#waiting.promise
  }
}

/** The time limit of a call. */
const callMs = 5_000
const closeMs = 2_000

/** Recognized by identity, and never shown to callers. */
const lateness = new Error('late')

function refusal(): SignalboxError {
  return new SignalboxError('closed', 'This Redis store was closed. Open another.')
}
