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
}

/** What is to be done, given the number of the last step applied. */
export function planMigrations(
  current: number,
  known: readonly Migration[],
): MigrationStatus & { readonly steps: readonly Migration[] } {
  const steps = known.filter(({ number }) => number > current)
  return { current, latest: known.at(-1)?.number ?? 0, pending: steps.map(named), steps }
}

export function named({ number, name }: Migration): AppliedMigration {
  return { number, name }
}

/** Throws unless the schema is the one this version of Signalbox works with. */
export function requireSchema({ current, latest }: MigrationStatus): void {
  if (current === 0) {
    throw new SignalboxError(
      'schema_missing',
      'This database has no Signalbox tables. Run `signalbox migrate up`, or open it with { migrate: true }.',
    )
  }
  if (current < latest) {
    throw new SignalboxError(
      'schema_outdated',
      `This database has schema ${current} and this version of Signalbox needs ${latest}. Run \`signalbox migrate up\`, or open it with { migrate: true }.`,
      { details: { current, latest } },
    )
  }
  if (current > latest) {
    throw new SignalboxError(
      'schema_newer',
      `This database has schema ${current}, and this version of Signalbox knows only ${latest}. Upgrade Signalbox here.`,
      { details: { current, latest } },
    )
  }
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
