import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { SignalboxError } from '../../../core/errors.ts'
import type { Location } from '../connection/connection.ts'
import type { Watch } from '../connection/data-version.ts'
import { closed } from '../connection/failures.ts'
import { reportTurns, toEpoch, type WriteQueueMeter } from './write-queue-meter.ts'
import {
  type Answer,
  decodeAll,
  encodeAll,
  encodeCall,
  type FromThread,
  reviveError,
  type ThreadData,
  type ToThread,
} from './writer-thread-message.ts'
import type { Operation, WriteCall, Writer, Writes } from './writes.ts'

/**
 * A writer in a separate thread, so that no fsync blocks this one. Calls of one round of the event loop cross in few
 * messages; calls that arrive during a commit share the next one.
 *
 * If a thread ends unexpectedly, its pending calls fail with an unknown outcome, and the next call starts another
 * thread. Only calls that wait for an answer keep the process alive.
 */
export interface ThreadOptions {
  /**
   * How long an answer may take. It must exceed the write queue's deadline, so that only a hanging thread is abandoned.
   * @default 30_000
   */
  readonly answerMs?: number
  /** Measures how long calls waited for the writer, and which turns ran. @default no meter */
  readonly meter?: WriteQueueMeter | undefined
}

/**
 * The number of calls that are sent before their round ends. Without it the two threads would wait for each other in
 * turn.
 */
const sentAhead = 16

interface Waiting {
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
  readonly deadline: number
}

export class WriterThread implements Writer, Watch {
  readonly #location: Location
  readonly #answerMs: number
  readonly #meter: WriteQueueMeter | undefined
  #thread: Worker | undefined
  /**
   * Whether the current thread ever sent a message. A thread that ends before that is not restarted only to watch
   * commits.
   */
  #hasReceived = false
  #nextId = 1
  /** In the order of the requests. */
  readonly #waiting = new Map<number, Waiting>()
  /** The encoded calls from `#sentUpTo` on that were not sent yet, and the time of the first one. */
  #unsent: string[] = []
  #unsentSince = 0
  #sentUpTo = 1
  #heard: (() => void) | undefined
  #expiry: ReturnType<typeof setTimeout> | undefined
  #closed: Promise<void> | undefined

  constructor(location: Location, { answerMs = 30_000, meter }: ThreadOptions = {}) {
    this.#location = location
    this.#meter = meter
    this.#answerMs = answerMs
  }

  write<Name extends Operation>(call: WriteCall<Name>): Promise<ReturnType<Writes[Name]>> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(closed())
      const id = this.#nextId++
      const now = performance.now()
      // If encoding throws, only this call is rejected.
      if (this.#unsent.length === 0) this.#unsentSince = now
      const afterUs = Math.round((now - this.#unsentSince) * 1_000)
      const text = encodeCall(id, call as WriteCall, afterUs)
      this.#waiting.set(id, { resolve, reject, deadline: now + this.#answerMs })
      if (this.#waiting.size === 1) this.#thread?.ref()
      const unsentCount = this.#unsent.push(text)
      if (unsentCount === 1) setImmediate(() => this.#send())
      else if (unsentCount === sentAhead) this.#send()
      if (this.#expiry === undefined) this.#expireLater()
    })
  }

  /** Calls `heard` after a commit of another process, and when such a commit may have been missed. */
  start(heard: () => void): void {
    this.#heard = heard
    // Without a thread, the next thread starts with watching.
    this.#post({ watch: true })
  }

  stop(): void {
    this.#heard = undefined
    this.#post({ watch: false })
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    this.#heard = undefined
    this.#send()
    const thread = this.#thread
    if (!thread) return
    thread.ref()
    const ended = new Promise<void>((resolve) => thread.once('exit', () => resolve()))
    this.#post({ close: true })
    const timer = setTimeout(() => void thread.terminate(), this.#answerMs)
    await ended
    clearTimeout(timer)
  }

  #send(): void {
    const unsent = this.#unsent
    if (unsent.length === 0) return
    this.#unsent = []
    const from = this.#sentUpTo
    this.#sentUpTo = this.#nextId
    try {
      this.#thread ??= this.#startThread()
    } catch (error) {
      // The operating system refused another thread.
      for (let id = from; id < this.#sentUpTo; id++) this.#take(id)?.reject(notStarted(error))
      this.#rest()
      return
    }
    this.#post({ calls: encodeAll(unsent), since: toEpoch(this.#unsentSince) })
  }

  #post(message: ToThread): void {
    this.#thread?.postMessage(message)
  }

  #startThread(): Worker {
    // Source and build have the same files with different extensions. The thread does not inherit flags of the process.
    const file = import.meta.url.endsWith('.ts') ? './writer-thread-main.ts' : './writer-thread-main.js'
    const thread = new Worker(new URL(file, import.meta.url), {
      name: 'signalbox-sqlite',
      workerData: { location: this.#location, isMetered: this.#meter !== undefined } satisfies ThreadData,
      execArgv: [],
      // Each call leaves garbage. By default V8 collects up to 100 MB of it at a time, and moves much of it to the old
      // generation. A quarter of that takes no more time.
      resourceLimits: { maxYoungGenerationSizeMb: 24 },
      env: ownEnvironment(),
    })
    let cause: unknown
    thread.on('message', (message: FromThread) => this.#receive(message))
    thread.on('error', (error) => {
      cause = error
    })
    thread.on('exit', () => this.#lose(thread, cause))
    if (this.#waiting.size === 0) thread.unref()
    this.#hasReceived = false
    if (this.#heard) thread.postMessage({ watch: true } satisfies ToThread)
    return thread
  }

  #receive(message: FromThread): void {
    this.#hasReceived = true
    if ('news' in message) {
      this.#heard?.()
      return
    }
    if (this.#meter && message.turns) reportTurns(this.#meter, message.turns)
    this.#deliver(decodeAll<Answer>(message.answers))
  }

  #deliver(answers: readonly Answer[]): void {
    for (const [id, value, failed] of answers) {
      const call = this.#take(id)
      if (failed) call?.reject(reviveError(failed))
      else call?.resolve(value as never)
    }
    this.#rest()
  }

  #take(id: number): Waiting | undefined {
    const call = this.#waiting.get(id)
    this.#waiting.delete(id)
    return call
  }

  /** Without waiting calls, the thread does not keep the process alive. */
  #rest(): void {
    if (this.#waiting.size > 0) return
    this.#thread?.unref()
    clearTimeout(this.#expiry)
    this.#expiry = undefined
  }

  /** The thread ended, on request or unexpectedly. */
  #lose(thread: Worker, cause: unknown): void {
    if (this.#thread !== thread) return
    this.#thread = undefined
    for (const id of [...this.#waiting.keys()]) {
      if (id < this.#sentUpTo) this.#take(id)?.reject(lost(cause))
    }
    this.#rest()
    if (this.#heard === undefined) return
    this.#heard()
    // Commits of other processes must still be noticed. If no thread can start, the next call reports why; polling
    // covers the time until then.
    if (this.#hasReceived) this.#tryThread()
  }

  #tryThread(): void {
    try {
      this.#thread ??= this.#startThread()
    } catch {}
  }

  #expireLater(): void {
    const [first] = this.#waiting.values()
    if (!first) return
    this.#expiry = setTimeout(
      () => {
        this.#expiry = undefined
        this.#expire()
        this.#expireLater()
      },
      Math.max(5, first.deadline - performance.now() + 1),
    )
    this.#expiry.unref()
  }

  #expire(): void {
    const now = performance.now()
    for (const [id, { deadline }] of this.#waiting) {
      if (deadline > now) break
      this.#take(id)?.reject(silent(this.#answerMs))
    }
    this.#rest()
  }
}

/**
 * Lets the thread use the process's compile cache, which makes the next start faster. A thread must be told its folder.
 */
function ownEnvironment(): NodeJS.ProcessEnv {
  // Each version of Node has a subfolder in that folder, and this function returns the subfolder.
  const folder = getCompileCacheDir()
  return folder === undefined ? process.env : { ...process.env, NODE_COMPILE_CACHE: dirname(folder) }
}

function lost(cause: unknown): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    'The thread that writes to SQLite ended by itself, so the outcome of this call is unknown. The next call starts a new thread. Check the outcome, or try again.',
    cause === undefined ? {} : { cause },
  )
}

function notStarted(cause: unknown): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `The thread that writes to SQLite could not be started (${(cause as Error).message}); this call wrote nothing.`,
    { cause },
  )
}

function silent(answerMs: number): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `The thread that writes to SQLite has not answered for ${answerMs} ms, so it is not known whether this call was done. Look at the disk's health.`,
    { details: { answerMs } },
  )
}
