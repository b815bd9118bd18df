import type { SignalboxError } from '../core/errors.ts'
import type { MigrationStatus } from './backend.ts'
import { requireSchema } from './migration-plan.ts'

/**
 * Keeps a program from claiming once somebody has migrated the store beyond what it may work on: what it holds it still
 * ends, and nothing new begins, so its workers drain. There is no timer: whoever claims looks again when the last look is
 * old, and learns the answer with the next claim.
 */
export class SchemaWatch {
  readonly #status: () => Promise<MigrationStatus>
  readonly #everyMs: number
  #lookedAt = performance.now()
  #refusal: SignalboxError | undefined

  constructor(status: () => Promise<MigrationStatus>, everyMs = 10_000) {
    this.#status = status
    this.#everyMs = everyMs
  }

  /** Throws `schema_newer` once that is known. */
  refuse(): void {
    if (this.isRefusing()) throw this.#refusal
  }

  /** The same for whoever can do without a claim. */
  isRefusing(): boolean {
    const now = performance.now()
    if (now - this.#lookedAt >= this.#everyMs) {
      this.#lookedAt = now
      void this.#look()
    }
    return this.#refusal !== undefined
  }

  async #look(): Promise<void> {
    let status: MigrationStatus
    try {
      status = await this.#status()
    } catch {
      // A store that does not answer is told by the claim itself.
      return
    }
    this.#refusal = refusalOf(status)
  }
}

function refusalOf(status: MigrationStatus): SignalboxError | undefined {
  try {
    requireSchema(status)
    return undefined
  } catch (error) {
    return error as SignalboxError
  }
}
