import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { SignalboxError } from '../../core/errors.ts'
import { onlyKeys, text } from '../../core/options.ts'
import { type SealContext, type Sealer, sealBroken } from './sealer.ts'

/**
 * AES-256-GCM with keys that can be changed. What it makes:
 *
 *     1 │ length of the key's id │ the key's id │ 12 random bytes │ 16 bytes of tag │ what was sealed
 *
 * The head, the job's id, its kind and which part it is are bound by the tag: what is copied to another job, or from
 * the payload to the result, does not open.
 */
export interface AesSealerOptions {
  /** Keys of 32 bytes each, by their ids. Each of them opens what it sealed. */
  readonly keys: Readonly<Record<string, Uint8Array>>
  /** The id of the one that seals. */
  readonly current: string
}

const version = 1
const nonceBytes = 12
const tagBytes = 16
const keyBytes = 32
const maxIdBytes = 64

/** Makes a sealer of your keys. To change keys: add the new one everywhere first, then make it `current`. */
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
      // Another sealer's, or a newer version's: somebody may open it, so it is not for us to call it broken.
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

/** JSON, so that no two contexts run together into the same bytes. */
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

/** Without the value: it may be a key. */
function refused(option: string, allowed: string): SignalboxError {
  return new SignalboxError('invalid_argument', `createAesSealer.${option} must be ${allowed}.`, {
    details: { option: `createAesSealer.${option}` },
  })
}

function keyMissing({ jobId, kind, part }: SealContext, keyId: string): SignalboxError {
  return new SignalboxError(
    'payload_sealed',
    `The ${part} of job "${jobId}" (${kind}) is sealed with the key ${JSON.stringify(keyId)}, which this box does not have. The job waits; give the key to createAesSealer.`,
    { details: { jobId, kind, part, keyId } },
  )
}

function unknownForm({ jobId, kind, part }: SealContext): SignalboxError {
  return new SignalboxError(
    'payload_sealed',
    `The ${part} of job "${jobId}" (${kind}) was not sealed by createAesSealer as this version knows it. The job waits for a worker with the sealer that made it.`,
    { details: { jobId, kind, part } },
  )
}
