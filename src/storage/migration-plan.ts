import { SignalboxError } from '../core/errors.ts'
import type { AppliedMigration, MigrationStatus } from './backend.ts'

/**
 * Numbered schema steps, shared by the SQL engines. A released step is never edited; a later step changes its result.
 * How a step runs at most once among many starting processes, and survives a kill, differs by engine: see its
 * `migrator.ts`.
 */
export interface Migration {
  /** 1, 2, 3 … without gaps. */
  readonly number: number
  readonly name: string
  readonly statements: readonly string[]
  /**
   * The last step that a program must know to keep working after this step was applied, so that the previous release
   * and this one can run side by side. @default its own number: older programs must stop
   */
  readonly oldest?: number
}

/** The marks with which a database describes its schema. */
export interface SchemaMarks {
  /** The last applied step; 0 without a schema. */
  readonly current: number
  /** The last step that a program must know to use the schema. Undefined if no migrator recorded it. */
  readonly oldest: number | undefined
  /** The name of step 1, if it was applied. */
  readonly first: string | undefined
}

/** The marks of a database without Signalbox tables. */
export const noSchema: SchemaMarks = { current: 0, oldest: undefined, first: undefined }

/** The key of `oldest` in the table signalbox_meta. */
export const oldestKey = 'oldest_schema'

/** Decides which steps to run, from the marks of the database. */
export function planMigrations(
  { current, oldest = current, first }: SchemaMarks,
  known: readonly Migration[],
): MigrationStatus & { readonly steps: readonly Migration[] } {
  // Schemas from before the baseline have the same numbers. The name of their first step tells them apart.
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

/** The status of a database with these marks. */
export function statusOf(marks: SchemaMarks, known: readonly Migration[]): MigrationStatus {
  const { steps: _, ...status } = planMigrations(marks, known)
  return status
}

/**
 * The note to store after all these steps were applied: which programs may use the schema, and which schema the note is
 * about.
 */
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

/** Decodes a database's marks. A note about another schema is ignored. */
export function readMarks({ current, first, note }: MarksRow): SchemaMarks {
  const [oldest, of] = (note ?? '').split(' of ').map(Number)
  return { current, oldest: of === current ? oldest : undefined, first: first ?? undefined }
}

export function named({ number, name }: Migration): AppliedMigration {
  return { number, name }
}

/**
 * The number of the mark among the steps while `signalbox copy` fills a database. It is above every step, so that no
 * version of Signalbox opens the unfinished copy as a store.
 */
export const copyMark = 1_000_000

/** The message about a schema from before the baseline, with a way out. */
export const beforeBaseline =
  'was made by an unreleased version of Signalbox, before the baseline schema of 0.1.0. This version can neither migrate nor copy it. Export what you need with the version that made it, then start with an empty database.'

/** Throws unless this version of Signalbox can use the schema. */
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

/** The steps as one text for administrators. */
export function printMigrations(known: readonly Migration[]): string {
  return known
    .map(
      ({ number, name, statements }) =>
        `-- ${number}: ${name}\n\n${statements.map((s) => `${s.trim()};`).join('\n\n')}\n`,
    )
    .join('\n')
}

/**
 * Stops a program from claiming when the store was migrated to a version that the program cannot use. The program still
 * ends its running jobs and starts no new ones, so its workers drain. There is no timer: a claim starts a check when
 * the last check is old, and the next claim uses the answer.
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

  /** Throws `schema_newer` once a check has found it. */
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
