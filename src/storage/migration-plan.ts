import { SignalboxError } from '../core/errors.ts'
import type { AppliedMigration, MigrationStatus } from './backend.ts'

/**
 * Numbered steps, shared by the SQL engines. A step is never edited once released: the next one changes what it made.
 * How a step is run at most once by many starters, and survives a kill, differs by engine and is in its `migrator.ts`.
 */
export interface Migration {
  /** 1, 2, 3 … without gaps. */
  readonly number: number
  readonly name: string
  readonly statements: readonly string[]
  /**
   * The last step that a program must know to go on working when this one has been applied, so that the release before
   * and this one can run side by side. @default its own number: older programs must stop
   */
  readonly oldest?: number
}

/** What a database says of its schema. */
export interface SchemaMarks {
  /** The last step applied; 0 when there is none. */
  readonly current: number
  /** The last step that a program must know to work on it; undefined where no migrator noted it. */
  readonly oldest: number | undefined
  /** The name of step 1; undefined where there is none. */
  readonly first: string | undefined
}

/** The marks of a database without Signalbox tables. */
export const noSchema: SchemaMarks = { current: 0, oldest: undefined, first: undefined }

/** Where `oldest` is kept, in the table signalbox_meta. */
export const oldestKey = 'oldest_schema'

/** What is to be done, given what the database says of itself. */
export function planMigrations(
  { current, oldest = current, first }: SchemaMarks,
  known: readonly Migration[],
): MigrationStatus & { readonly steps: readonly Migration[] } {
  // Schemas made before the baseline have the same numbers. The name of their first step tells them apart.
  const isBeforeBaseline = current > 0 && first !== known[0]?.name
  const steps = isBeforeBaseline ? [] : known.filter(({ number }) => number > current)
  const latest = known.at(-1)?.number ?? 0
  const isAllowed = current > latest && current !== copyMark && oldest <= latest
  return {
    current,
    latest,
    pending: steps.map(named),
    isRunnable: !isBeforeBaseline && (current === latest || isAllowed),
    isBeforeBaseline,
    steps,
  }
}

/** What is noted once all of these have been applied: who may work on it, and of which schema that is said. */
export function noteOf(known: readonly Migration[]): string {
  const oldest = Math.max(0, ...known.map(({ number, oldest = number }) => oldest))
  return `${oldest} of ${known.at(-1)?.number ?? 0}`
}

/** The row in which a database describes its schema. */
export interface MarksRow {
  readonly current: number
  readonly first: string | null
  readonly note: string | null
}

/** Decodes what a database says of its schema. A note on another schema says nothing of this one. */
export function readMarks({ current, first, note }: MarksRow): SchemaMarks {
  const [oldest, of] = (note ?? '').split(' of ').map(Number)
  return { current, oldest: of === current ? oldest : undefined, first: first ?? undefined }
}

export function named({ number, name }: Migration): AppliedMigration {
  return { number, name }
}

/**
 * What stands among the steps while `signalbox copy` fills a database: beyond every step, so that no version of Signalbox
 * takes what is half there for a store.
 */
export const copyMark = 1_000_000

/** The message about a schema from before the baseline, with the way out. */
export const beforeBaseline =
  'was made by an unreleased version of Signalbox, before the baseline schema of 0.1.0. This version can neither migrate nor copy it. Export what you need with the version that made it, then start with an empty database.'

/** Throws unless the schema is one that this version of Signalbox works with. */
export function requireSchema({ current, latest, isRunnable, isBeforeBaseline }: MigrationStatus): void {
  if (isRunnable) return
  if (isBeforeBaseline) {
    throw new SignalboxError('schema_outdated', `This database ${beforeBaseline}`, {
      details: { current, latest },
    })
  }
  if (current === 0) {
    throw new SignalboxError(
      'schema_missing',
      'This database has no Signalbox tables. Run `signalbox migrate up`, or open it with { migrate: true }.',
    )
  }
  if (current === copyMark) {
    throw new SignalboxError(
      'copy_unfinished',
      'This database is being filled by `signalbox copy`, which has not ended. Run the same copy again: it goes on from where it was.',
    )
  }
  if (current < latest) {
    throw new SignalboxError(
      'schema_outdated',
      `This database has schema ${current} and this version of Signalbox needs ${latest}. Run \`signalbox migrate up\`, or open it with { migrate: true }.`,
      { details: { current, latest } },
    )
  }
  throw new SignalboxError(
    'schema_newer',
    `This database has schema ${current}, and this version of Signalbox knows only ${latest}. Upgrade Signalbox here.`,
    { details: { current, latest } },
  )
}

/** The steps as one text for people. */
export function printMigrations(known: readonly Migration[]): string {
  return known
    .map(
      ({ number, name, statements }) =>
        `-- ${number}: ${name}\n\n${statements.map((s) => `${s.trim()};`).join('\n\n')}\n`,
    )
    .join('\n')
}

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
