import type { Client } from '../client/index.ts'
import { isSignalboxError } from '../core/errors.ts'
import {
  type AckOptions,
  type Added,
  type AddOptions,
  createJobs,
  type Ended,
  type HandlerContext,
  type HandlerJob,
  type Held,
  type Jobs,
  type JobsBell,
  type JobToAdd,
  type NackOptions,
  type Worker,
  type WorkerOptions,
} from '../jobs/index.ts'
import { noTransaction, RemoteJobStore } from './jobstore.ts'

/**
 * The verbs of jobs on a server elsewhere: all but what needs a transaction. That is refused where it is written, by
 * the types below, and again when it is called, with `transaction_unsupported`.
 */
export interface RemoteJobs extends Omit<Jobs, 'add' | 'addMany' | 'ack' | 'nack' | 'worker'> {
  /** Puts one job in line. */
  add(kind: string, payload?: unknown, options?: AddOptions & WithoutTransaction): Promise<Added>
  /** Puts up to 1,000 in line, all or none; answers in order. */
  addMany(jobs: readonly JobToAdd[], options?: WithoutTransaction): Promise<readonly Added[]>
  /** The job is done. Throws `lease_lost` when it is not yours any more; then nothing was written. */
  ack(job: Held, options?: RemoteAckOptions): Promise<Ended>
  /**
   * The job failed: back in line after its back-off, or dead when no attempts are left; cancelled when that was asked
   * for. Answers which. Throws `lease_lost`.
   */
  nack(job: Held, options?: RemoteNackOptions): Promise<Ended>
  /** A worker in this process for jobs that are kept there. */
  worker(options: RemoteWorkerOptions): Worker
}

/** There is no transaction to take part in. */
export interface WithoutTransaction {
  readonly tx?: undefined
}

export interface RemoteAckOptions extends Omit<AckOptions, 'tx'>, WithoutTransaction {}
export interface RemoteNackOptions extends Omit<NackOptions, 'tx'>, WithoutTransaction {}

/** A job in its handler's hands. It is finished by returning, throwing, `ack` or `nack`. */
export interface RemoteHandlerJob<Payload = unknown>
  extends Omit<HandlerJob<Payload>, 'transaction' | 'ack' | 'nack'> {
  ack(options?: RemoteAckOptions): Promise<Ended>
  nack(options?: RemoteNackOptions): Promise<Ended>
}

// biome-ignore lint/suspicious/noExplicitAny: a payload is what the adder put in; typed kinds give it its type.
export type RemoteHandlerFunction<Payload = any> = (
  job: RemoteHandlerJob<Payload>,
  context: HandlerContext,
) => unknown

/** A handler with its policies. */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export interface RemoteHandlerSpec<Payload = any> {
  readonly run: RemoteHandlerFunction<Payload>
  readonly finish?: 'any'
}

// biome-ignore lint/suspicious/noExplicitAny: as above.
export type RemoteHandler<Payload = any> = RemoteHandlerFunction<Payload> | RemoteHandlerSpec<Payload>

/** What a worker is made of. */
export interface RemoteWorkerOptions extends Omit<WorkerOptions, 'handlers'> {
  /** By kind. Jobs of other kinds are left for workers that know them. */
  readonly handlers: Readonly<Record<string, RemoteHandler>>
}

export function createRemoteJobs(client: Client, bell: JobsBell): RemoteJobs {
  const jobs = createJobs({ store: new RemoteJobStore(client), bell })
  const workers = createJobs({ store: new RemoteJobStore(client, { dropsResults: true }), bell })
  return {
    ...jobs,

    async add(kind, payload, options) {
      try {
        return await jobs.add(kind, payload, options)
      } catch (error) {
        // Adds made at once share a request, which may be refused for being too large together, or for what is wrong
        // with another's. Nothing was written then, and each is told what there is to say about its own.
        if (!isSignalboxError(error, 'too_large') && !isSignalboxError(error, 'invalid_argument')) throw error
        return (await jobs.addMany([{ ...options, kind, payload }]))[0]!
      }
    },

    wake(queue) {
      jobs.wake(queue)
      // A hint: whoever does not get it polls.
      client.jobs.wake(queue).catch(() => undefined)
    },

    worker(options) {
      for (const [kind, handler] of Object.entries(options?.handlers ?? {})) {
        const { finish } = (handler ?? {}) as { finish?: unknown }
        if (finish === 'transaction')
          throw noTransaction(`The handler of "${kind}" cannot end its jobs in a transaction`)
      }
      return workers.worker(options)
    },

    async [Symbol.asyncDispose]() {
      await workers[Symbol.asyncDispose]()
      await jobs[Symbol.asyncDispose]()
    },
  }
}
