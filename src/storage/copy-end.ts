import { SignalboxError } from '../core/errors.ts'
import type { CopyNumbers, CopyRow, CopyTable } from './copy-tables.ts'

/**
 * One end of a copy: a database, read or written by rows that no engine has alone (copy-tables.ts), past its stores. Only
 * `signalbox copy` has any use for it.
 */
export interface CopyEnd extends AsyncDisposable {
  /** Tells this store from every other; undefined: there is no schema. */
  storeId(): Promise<string | undefined>
  /** The schema's number, but for the mark of a copy; 0: there is none. */
  schema(): Promise<number>
  /** Leases that are live now, those that end last first; up to 20. */
  liveLeases(): Promise<readonly LiveLease[]>
  /** The namespaces that have attempts under way, dead or alive. */
  runningNamespaces(): Promise<readonly string[]>
  /** Live jobs that do not run and that a claim would cancel, for that was asked of them. */
  unwantedJobs(): Promise<readonly { readonly namespace: string; readonly id: string }[]>
  /** Reads one moment of the database; all parts of the answer belong together. */
  look(): Promise<CopyLook>

  /** The name of a table with rows that a copy would write, if there is one; tables that are not there are empty. */
  firstFilled(): Promise<string | undefined>
  /** The copy that was begun here and has not ended; undefined: none was. */
  book(): Promise<CopyBook | undefined>
  /** Where a copy that has ended came from. */
  copiedFrom(): Promise<string | undefined>
  /** Begins a copy: from now on no program can open this database as a store. */
  begin(from: string): Promise<void>
  /** Writes rows and how far that is, in one transaction. */
  write(table: CopyTable, rows: readonly CopyRow[], step: CopyStep): Promise<void>
  /** Takes all rows of a table out again, and begins it anew. */
  clear(table: CopyTable): Promise<void>
  /** Makes sure that numbers go on above these. */
  raise(numbers: CopyNumbers): Promise<void>
  /** Ends the copy: the database is a store from then on. */
  finish(from: string): Promise<void>
}

/** A live lease in the source. */
export interface LiveLease {
  /** What it is of: "job mail/01k9…", "lock deploy eu-1", "server 01k9…". */
  readonly of: string
  readonly holder: string
  /** Of the end's own clock: larger when it was renewed. */
  readonly endsAt: number
  readonly restMs: number
}

/** One moment of a database. */
export interface CopyLook extends AsyncDisposable {
  count(table: CopyTable): Promise<number>
  /** Rows behind that key, in the order of the table's key, in pages of up to `pageRows`. */
  read(table: CopyTable, after: readonly string[] | null, pageRows: number): AsyncIterable<readonly CopyRow[]>
  numbers(): Promise<CopyNumbers>
}

/** A copy under way. */
export interface CopyBook {
  /** The store that it reads. */
  readonly from: string
  readonly tables: ReadonlyMap<string, CopyProgress>
}

export interface CopyProgress {
  /** The key of the last row written; null: none was. */
  readonly position: readonly string[] | null
  readonly count: number
  readonly isDone: boolean
}

/** The progress that is written together with rows. */
export interface CopyStep extends CopyProgress {
  /** How many rows were there before; when that is not so any more, another copy is at work here. */
  readonly countBefore: number
  readonly numbers: CopyNumbers
}

/** The error when the stored progress differs from what this copy last wrote. */
export function takenByAnother(): SignalboxError {
  return new SignalboxError(
    'copy_target_taken',
    'Another `signalbox copy` is filling this target at the same time. Let one of them do it.',
  )
}
