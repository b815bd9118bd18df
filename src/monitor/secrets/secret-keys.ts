import { hash } from 'node:crypto'
import { isSignalboxError } from '../../core/errors.ts'
import { parseSecretKeys } from '../../core/secret-keys.ts'
import { createAesSealer, type SealContext, type Sealer } from '../../jobs/index.ts'

/**
 * The keys that seal secrets in the store, with the AES sealer that payloads can have. The first key seals; every key
 * opens. A key is known by the beginning of its digest, which says nothing about the key. Printing this object, in a
 * log or as JSON, shows no key.
 */
export class SecretKeys {
  readonly #sealer: Sealer
  /** The id of the key that seals. */
  readonly currentId: string

  /** Throws `invalid_argument`; `name` is where the keys come from. */
  constructor(name: string, given: string | readonly string[]) {
    const keys = parseSecretKeys(name, given).map((key) => [idOf(key), key] as const)
    this.currentId = keys[0]![0]
    this.#sealer = createAesSealer({ keys: Object.fromEntries(keys), current: this.currentId })
  }

  /** Base64. `owner` is not stored: the text opens for the same owner alone. */
  seal(text: string, owner: string): string {
    // The AES sealer answers at once.
    const sealed = this.#sealer.seal(Buffer.from(text), contextOf(owner)) as Uint8Array
    return Buffer.from(sealed).toString('base64')
  }

  open(sealed: string, owner: string): OpenedSecret {
    try {
      const plain = this.#sealer.open(Buffer.from(sealed, 'base64'), contextOf(owner)) as Uint8Array
      return { status: 'opened', text: Buffer.from(plain).toString() }
    } catch (error) {
      return { status: isSignalboxError(error, 'seal_broken') ? 'broken' : 'unknown_key' }
    }
  }

  toJSON(): string {
    return '(set)'
  }
}

export type OpenedSecret =
  | { readonly status: 'opened'; readonly text: string }
  /** `unknown_key`: another key opens it. `broken`: it was changed, or it belongs to another owner. */
  | { readonly status: 'unknown_key' | 'broken' }

/** The sealer binds jobs; a secret's owner takes the place of the job's id. */
function contextOf(owner: string): SealContext {
  return { part: 'payload', queue: 'signalbox.secret', kind: 'signalbox.secret', jobId: owner }
}

function idOf(key: Uint8Array): string {
  return hash('sha256', Buffer.concat([Buffer.from('signalbox.secret.key.1 '), key])).slice(0, 8)
}
