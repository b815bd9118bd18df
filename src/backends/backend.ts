import type { JobStore } from '../jobs/index.ts'

/**
 * A backend is where everything is kept: the stores of the rooms, a bell, and what it can and cannot do. What not all
 * of them can do is a trait; nobody asks a backend for its name.
 */
export interface Backend extends AsyncDisposable {
  /** For messages and people: 'memory', 'sqlite', 'postgres', 'mariadb'. */
  readonly name: string
  readonly traits: Traits
  readonly jobs: JobStore
  readonly bell: BackendBell
  readonly migrator: Migrator
  /** Weak settings that were found at opening, in words; empty when all is well. */
  readonly warnings: readonly string[]
  /** Whether the store answers; throws `store_unavailable` or `store_busy` when it does not. */
  ping(): Promise<void>
  /** Ends everything it opened; what is asked afterwards is refused with `closed`. Safe to call twice. */
  close(): Promise<void>
}

export interface Traits {
  /** A caller's `tx` is taken, and `transact` gives a real connection. */
  readonly transactions: boolean
  /** Rings reach other processes. Where they do not, polling finds what they would have told. */
  readonly remoteBell: boolean
}

/**
 * Tells others in this process at once, and other processes where the engine can, that there may be news. A ring may
 * be merged with others or lost; whoever depends on it polls as well.
 */
export interface BackendBell {
  /** Rings after the caller's commit, never within it. Rings of a topic that follow each other at once are told to other processes as one. */
  ring(topic: string): void
  /** Calls `heard` at every ring of these topics, until the returned function is called. `heard` must not throw. */
  listen(topics: readonly string[], heard: () => void): () => void
}

/** The schema's versions, and the way from one to the next. */
export interface Migrator {
  status(): Promise<MigrationStatus>
  /** Brings the schema up to date; answers what it applied. Several may try at once, and any may be killed. */
  up(): Promise<readonly AppliedMigration[]>
  /** All the steps as one text that a person can read and run. */
  sql(): string
}

export interface AppliedMigration {
  readonly number: number
  readonly name: string
}

export interface MigrationStatus {
  /** The last one applied; 0 when there is no schema. */
  readonly current: number
  /** The newest this version of Signalbox knows. */
  readonly latest: number
  readonly pending: readonly AppliedMigration[]
}

/** What every engine is opened with. */
export interface BackendOptions {
  readonly namespace: string
  /** Bring the schema up to date when opening. */
  readonly migrate: boolean
}
