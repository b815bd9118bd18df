import { systemClock } from '../../core/clock.ts'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { callable, onlyKeys, show } from '../../core/options.ts'

/**
 * Makes what jobs carry unreadable before it reaches the store, and readable again for who has the key. It is the
 * user's code, or `createAesSealer`. Both verbs may answer at once or later; later is waited for, for five seconds.
 */
export interface Sealer {
  /** What is kept instead. The context is not kept with it: bind it, and what is copied to another job will not open. */
  seal(plain: Uint8Array, context: SealContext): Uint8Array | Promise<Uint8Array>
  /**
   * What was sealed, in the same context. Throw a `SignalboxError` with `seal_broken` when no key will ever open it:
   * then the job is dead. Whatever else is thrown means "not here, not now", and the job waits without burning an attempt.
   */
  open(sealed: Uint8Array, context: SealContext): Uint8Array | Promise<Uint8Array>
}

/** Whose it is; the same when it is sealed and when it is opened. */
export interface SealContext {
  readonly part: SealedPart
  readonly queue: string
  readonly kind: string
  readonly jobId: string
}

/** What of a job is sealed. Its error, logs, tags and unique key are not. */
export type SealedPart = 'payload' | 'result'

/** How the jobs of a box are kept. */
export interface JobsOptions {
  /** Seals payloads and results before the store sees them. @default none: they are kept as they are */
  readonly sealer?: Sealer | undefined
}

/** Checks the options of a box's jobs; answers the sealer, when there is one. */
export function resolveSealer(name: string, options: JobsOptions | undefined): Sealer | undefined {
  if (options === undefined) return undefined
  onlyKeys(name, options, ['sealer'])
  const { sealer } = options
  if (sealer === undefined) return undefined
  if (typeof sealer !== 'object' || sealer === null) {
    throw new SignalboxError(
      'invalid_argument',
      `${name}.sealer must be a sealer, such as createAesSealer makes, not ${show(sealer)}.`,
      { details: { option: `${name}.sealer` } },
    )
  }
  callable(`${name}.sealer.seal`, sealer.seal)
  callable(`${name}.sealer.open`, sealer.open)
  return sealer
}

/** How long a sealer that answers later is waited for. */
export const sealTimeoutMs = 5_000

/** Seals a text. Throws `seal_failed`, at once or later. */
export function sealBytes(
  sealer: Sealer,
  plain: Uint8Array,
  context: SealContext,
): Promise<Uint8Array> | Uint8Array {
  const failed = (cause: unknown) => sealFailed(context, cause)
  return ask(() => sealer.seal(plain, context), sealTimeoutMs, failed)
}

/** Opens it. Throws `seal_broken`, or `payload_sealed` when it may open elsewhere or later. */
export function openBytes(
  sealer: Sealer,
  sealed: Uint8Array,
  context: SealContext,
  timeoutMs: number = sealTimeoutMs,
): Promise<Uint8Array> | Uint8Array {
  const failed = (cause: unknown) =>
    isSignalboxError(cause, 'seal_broken') || isSignalboxError(cause, 'payload_sealed')
      ? cause
      : notOpened(context, cause)
  return ask(() => sealer.open(sealed, context), timeoutMs, failed)
}

/** The sealer is somebody else's code: it may throw, never answer, or answer nonsense. */
function ask(
  step: () => unknown,
  timeoutMs: number,
  failed: (cause: unknown) => SignalboxError,
): Promise<Uint8Array> | Uint8Array {
  // No payload is empty, neither plain nor sealed; what is kept of one that was would be lost.
  const isBytes = (answer: unknown) => answer instanceof Uint8Array && answer.length > 0
  const bytesOf = (answer: unknown): Uint8Array => {
    if (isBytes(answer)) return answer as Uint8Array
    throw failed(new TypeError('The sealer answered with no bytes, or with no Uint8Array.'))
  }
  let answer: unknown
  try {
    answer = step()
  } catch (error) {
    throw failed(error)
  }
  if (isBytes(answer)) return answer as Uint8Array
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>()
  const late = () => reject(failed(new Error(`The sealer did not answer in ${timeoutMs} ms.`)))
  const timer = systemClock.setTimeout(late, timeoutMs)
  // By way of Promise: a foreign thenable may throw when it is called, or call back twice.
  Promise.resolve(answer)
    .then(bytesOf)
    .then(resolve, (error: unknown) => reject(failed(error)))
    .finally(() => systemClock.clearTimeout(timer))
  return promise
}

function sealFailed({ jobId, kind, part }: SealContext, cause: unknown): SignalboxError {
  if (isSignalboxError(cause, 'seal_failed')) return cause
  return new SignalboxError(
    'seal_failed',
    `The ${part} of job "${jobId}" (${kind}) could not be sealed, and nothing of it was written. See the cause.`,
    { cause, details: { jobId, kind, part } },
  )
}

function notOpened({ jobId, kind, part }: SealContext, cause: unknown): SignalboxError {
  return new SignalboxError(
    'payload_sealed',
    `The ${part} of job "${jobId}" (${kind}) is sealed, and the sealer of this box could not open it now. The job waits; see the cause.`,
    { cause, details: { jobId, kind, part } },
  )
}

/** It was changed, or is another job's: no key opens it, now or later. */
export function sealBroken({ jobId, kind, part }: SealContext): SignalboxError {
  return new SignalboxError(
    'seal_broken',
    `The sealed ${part} of job "${jobId}" (${kind}) was changed, or belongs to another job, and no key opens it.`,
    { details: { jobId, kind, part } },
  )
}
