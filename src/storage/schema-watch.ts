import type { SignalboxError } from '../core/errors.ts'
import type { MigrationStatus } from './backend.ts'
import { requireSchema } from './migration-plan.ts'

/**
 * Stops a program from claiming when the store was migrated to a version that the program cannot work on. It still ends
 * the jobs it has and starts no new ones, so its workers drain. There is no timer: a claim checks again when the last
 * check is old, and the next claim uses the answer.
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

  /** The same for callers that can skip a claim. */
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
      // The claim itself reports a store that does not answer.
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
