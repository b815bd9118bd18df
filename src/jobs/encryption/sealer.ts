import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { within } from '../../core/clock.ts'
import { invalidArgument, isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { callable, onlyKeys, refuse, text } from '../../core/options.ts'

/**
 * Encrypts payloads and results before they reach the store, and decrypts them for holders of the key. It is the user's
 * code, or `createAesSealer`. Both verbs may return a promise; the box waits five seconds for it.
 */
export interface Sealer {
  /** Returns the bytes to store. Bind them to the context, so that they do not open in another job. */
  seal(plain: Uint8Array, context: SealContext): Uint8Array | Promise<Uint8Array>
  /**
   * Returns the plain bytes; the context is the same as in `seal`. Throw a `SignalboxError` with `seal_broken` if no
   * key can ever open it: then the job is dead. After any other error the job waits and uses up no attempt.
   */
  open(sealed: Uint8Array, context: SealContext): Uint8Array | Promise<Uint8Array>
}

/** The job and part to which the bytes belong; the same in `seal` and in `open`. */
export interface SealContext {
  readonly part: SealedPart
  readonly queue: string
  readonly kind: string
  readonly jobId: string
}

/** The sealed parts of a job. Its error, logs, tags and unique key stay plain. */
export type SealedPart = 'payload' | 'result'

/** Checks the sealer among the options of a box's jobs, if there is one. */
export function resolveSealer(
  name: string,
  { sealer }: { readonly sealer?: Sealer | undefined },
): Sealer | undefined {
  if (sealer === undefined) return undefined
  if (typeof sealer !== 'object' || sealer === null)
    refuse(`${name}.sealer`, 'a sealer, such as one from createAesSealer', sealer)
  callable(`${name}.sealer.seal`, sealer.seal)
  callable(`${name}.sealer.open`, sealer.open)
  return sealer
}

/** The time limit of a sealer's promise. */
export const sealTimeoutMs = 5_000

/** Seals a text. Throws or rejects with `seal_failed`. */
export function sealBytes(
  sealer: Sealer,
  plain: Uint8Array,
  context: SealContext,
): Promise<Uint8Array> | Uint8Array {
  const failed = (cause: unknown) => sealFailed(context, cause)
  return ask(() => sealer.seal(plain, context), sealTimeoutMs, failed)
}

/**
 * Opens sealed bytes. Throws `seal_broken`, or `payload_sealed` if another process may open them, or this one later.
 */
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

/** The sealer is the user's code: it may throw, never answer, or return the wrong type. */
function ask(
  step: () => unknown,
  timeoutMs: number,
  failed: (cause: unknown) => SignalboxError,
): Promise<Uint8Array> | Uint8Array {
  // No payload is empty, neither plain nor sealed.
  const isBytes = (answer: unknown) => answer instanceof Uint8Array && answer.length > 0
  const bytesOf = (answer: unknown): Uint8Array => {
    if (isBytes(answer)) return answer as Uint8Array
    throw failed(new TypeError('The sealer must return a Uint8Array that is not empty.'))
  }
  let answer: unknown
  try {
    answer = step()
  } catch (error) {
    throw failed(error)
  }
  if (isBytes(answer)) return answer as Uint8Array
  const late = () => {
    throw new Error(`The sealer did not answer in ${timeoutMs} ms.`)
  }
  // `Promise.resolve` guards against a foreign thenable, which may throw when it is called, or call back twice.
  return within(timeoutMs, Promise.resolve(answer).then(bytesOf), late).catch((error: unknown) => {
    throw failed(error)
  })
}

function detailsOf({ jobId, kind, part }: SealContext, more: object = {}): Readonly<Record<string, unknown>> {
  return { jobId, kind, part, ...more }
}

function sealFailed(context: SealContext, cause: unknown): SignalboxError {
  if (isSignalboxError(cause, 'seal_failed')) return cause
  const message = `The ${nameOf(context)} could not be sealed, and was not written. See the cause.`
  return new SignalboxError('seal_failed', message, { cause, details: detailsOf(context) })
}

function notOpened(context: SealContext, cause: unknown): SignalboxError {
  const message = `The ${nameOf(context)} is sealed, and the sealer of this box could not open it. The job waits; see the cause.`
  return new SignalboxError('payload_sealed', message, { cause, details: detailsOf(context) })
}

function nameOf({ part, jobId, kind }: SealContext): string {
  return `${part} of job "${jobId}" (${kind})`
}

/** The data was changed, or belongs to another job: no key can open it. */
export function sealBroken(context: SealContext): SignalboxError {
  const message = `The sealed ${nameOf(context)} was changed, or belongs to another job. No key can open it.`
  return new SignalboxError('seal_broken', message, { details: detailsOf(context) })
}

/**
 * AES-256-GCM with key rotation. The sealed bytes:
 *
 *     1 │ length of the key's id │ the key's id │ 12 random bytes │ 16 bytes of tag │ the encrypted text
 *
 * The tag covers the head, the job's id, its kind and the part. So bytes that are copied to another job, or from the
 * payload to the result, do not open.
 */
export interface AesSealerOptions {
  /** Keys of 32 bytes each, by their ids. Each key opens the data that it sealed. */
  readonly keys: Readonly<Record<string, Uint8Array>>
  /** The id of the key that seals. */
  readonly current: string
}

const version = 1
const nonceBytes = 12
const tagBytes = 16
const keyBytes = 32
const maxIdBytes = 64

/** Creates a sealer from your keys. To change keys: first add the new key everywhere, then make it `current`. */
export function createAesSealer(options: AesSealerOptions): Sealer {
  onlyKeys('createAesSealer', options, ['keys', 'current'])
  const keys = resolveKeys(options.keys)
  const current = text('createAesSealer.current', options.current)
  const currentKey = keys.get(current)
  if (currentKey === undefined) throw refused('current', 'the id of one of its keys')
  const head = headOf(current)

  return {
    seal(plain, context) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', currentKey, nonce, { authTagLength: tagBytes })
      cipher.setAAD(boundTo(head, context))
      const body = Buffer.concat([cipher.update(plain), cipher.final()])
      return Buffer.concat([head, nonce, cipher.getAuthTag(), body])
    },

    open(sealed, context) {
      // Another sealer or a newer version made these bytes. Another worker may open them, so they are not broken.
      if (sealed.length > 0 && sealed[0] !== version) throw unknownForm(context)
      const parts = takeApart(sealed)
      if (parts === undefined) throw sealBroken(context)
      const key = keys.get(parts.keyId)
      if (key === undefined) throw keyMissing(context, parts.keyId)
      const decipher = createDecipheriv('aes-256-gcm', key, parts.nonce, { authTagLength: tagBytes })
      decipher.setAAD(boundTo(parts.head, context))
      decipher.setAuthTag(parts.tag)
      try {
        return Buffer.concat([decipher.update(parts.body), decipher.final()])
      } catch {
        throw sealBroken(context)
      }
    },
  }
}

function headOf(keyId: string): Buffer {
  const id = Buffer.from(keyId)
  return Buffer.concat([Buffer.from([version, id.length]), id])
}

/** The data that the tag covers. JSON, so that two contexts never give the same bytes. */
function boundTo(head: Buffer, { part, jobId, kind }: SealContext): Buffer {
  return Buffer.concat([head, Buffer.from(JSON.stringify([part, jobId, kind]))])
}

interface Parts {
  readonly head: Buffer
  readonly keyId: string
  readonly nonce: Buffer
  readonly tag: Buffer
  readonly body: Buffer
}

function takeApart(sealed: Uint8Array): Parts | undefined {
  const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength)
  const headEnd = 2 + (bytes[1] ?? 0)
  const tagAt = headEnd + nonceBytes
  const bodyAt = tagAt + tagBytes
  if (bytes.length < bodyAt) return undefined
  return {
    head: bytes.subarray(0, headEnd),
    keyId: bytes.toString('utf8', 2, headEnd),
    nonce: bytes.subarray(headEnd, tagAt),
    tag: bytes.subarray(tagAt, bodyAt),
    body: bytes.subarray(bodyAt),
  }
}

function resolveKeys(keys: unknown): ReadonlyMap<string, KeyObject> {
  if (typeof keys !== 'object' || keys === null) throw refused('keys', 'keys of 32 bytes by their ids')
  const entries = Object.entries(keys as Readonly<Record<string, unknown>>)
  return new Map(
    entries.map(([id, key]) => {
      const idBytes = Buffer.byteLength(id)
      if (idBytes === 0 || idBytes > maxIdBytes) throw refused('keys', `ids of 1 to ${maxIdBytes} bytes`)
      if (!(key instanceof Uint8Array) || key.length !== keyBytes)
        throw refused(`keys.${id}`, `a Uint8Array of ${keyBytes} bytes`)
      return [id, createSecretKey(key)]
    }),
  )
}

/** The message omits the value, which may be a key. */
function refused(option: string, allowed: string): SignalboxError {
  return invalidArgument(`createAesSealer.${option} must be ${allowed}.`, `createAesSealer.${option}`)
}

function keyMissing(context: SealContext, keyId: string): SignalboxError {
  const message = `The ${nameOf(context)} is sealed with the key ${JSON.stringify(keyId)}, which this box does not have. The job waits; give the key to createAesSealer.`
  return new SignalboxError('payload_sealed', message, { details: detailsOf(context, { keyId }) })
}

function unknownForm(context: SealContext): SignalboxError {
  const message = `The ${nameOf(context)} was not sealed by createAesSealer in a form that this version knows. The job waits for a worker with the sealer that made it.`
  return new SignalboxError('payload_sealed', message, { details: detailsOf(context) })
}
