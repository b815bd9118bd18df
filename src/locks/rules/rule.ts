import type { OutcomeKind, Requester, WaitQueueRows, Want } from './wait-queue.ts'

/**
 * The types of rules. A rule is a generator: it yields questions about rows and gets the answers, at once from a store in
 * this process, later from a store behind a connection.
 */
export type Rule<Answer> = Generator<RowQuestion, Answer, Given>

// biome-ignore lint/suspicious/noExplicitAny: the answer to a yield has the type that the method returns.
export type Given = any

/** A question to the rows of the rule's wait queue: the method and its arguments. */
export type OwnRowQuestion = {
  [Name in keyof WaitQueueRows]: readonly [Name, ...Parameters<WaitQueueRows[Name]>]
}[keyof WaitQueueRows]

/** A question to these rows, or to the rows of another operation of the same resource. */
export type RowQuestion = OwnRowQuestion | readonly ['of', operation: string, question: RowQuestion]

/**
 * Pairs of operations that exclude each other on a resource. Operations that no pair names cost nothing.
 */
export type Conflicts = readonly (readonly [string, string])[]

/** Time limits in milliseconds, and which operations exclude each other. */
export interface LockTimes {
  /** A waiter that neither asks nor has an open stream loses its position after this time. @default 30_000 */
  readonly waiterLeaseMs: number
  /** How long a granted waiter with an open stream may take to take up its grant. @default 2_000 */
  readonly streamedTakeUpMs: number
  /** The same without a stream. @default 10_000 */
  readonly takeUpMs: number
  /** How long an outcome is kept for its waiters. @default 60_000 */
  readonly keepMs: number
  /** After an expired lease, the lock grants nothing for this time. @default 0 */
  readonly lockDelayMs: number
  /** How many waiters one wait queue may have. @default 10_000 */
  readonly maxWaiters: number
  /**
   * Pairs of operations that exclude each other on the same resource: `[['pull', 'delete']]`. All processes that use the
   * namespace need the same pairs. @default none
   */
  readonly conflicts?: Conflicts
}

/** Whom to wake after a step. */
export interface Notified {
  /** Requesters that were granted the lock, or whose wait ended. */
  readonly requesters: readonly Requester[]
  /** The wait of all waiters ended. */
  readonly everyone: boolean
  /** Whether anything in the wait queue changed, for watchers. */
  readonly changed: boolean
  /** A turn ended because its lease expired; counters need it. @default false */
  readonly lapsed?: true
}

export type Ruled<Answer> = Answer & {
  readonly notified: Notified
  /** The revision of the wait queue after this step; 0 when it was never used. */
  readonly revision: number
  /** Whom to wake in wait queues of the same resource whose operations exclude this one. */
  readonly elsewhere?: readonly { readonly operation: string; readonly notified: Notified }[]
}

/** The answer to `release`. */
export interface Released {
  /** Undefined: the requester no longer held the lock. */
  readonly released: { readonly next: Requester | null } | undefined
  /** The grant of the next holder. Undefined also if the store no longer knows it. */
  readonly granted?: Grant | undefined
}

/** What a holder needs to know of its grant. */
export interface Grant {
  readonly token: number
  readonly attempt: number
}

/** How long a grant lasts without renewal, by default. */
export const defaultTtlMs = 30_000

export interface RenewTerms {
  /** Undefined: the last `ttlMs`, of the acquire or of an earlier renewal. */
  readonly ttlMs: number | undefined
  readonly progress: string | null | undefined
}

/** A request for the lock, or for a position in its wait queue. */
export interface AcquireRequest extends Requester {
  readonly wait: boolean
  readonly want: Want
  readonly ttlMs: number
  readonly deadlineMs: number | null
  readonly isStreamed: boolean
}

/** How a request stands. Instants are of the wall clock. */
export type Standing =
  | {
      readonly status: 'granted'
      readonly token: number
      readonly expiresAt: number
      readonly attempt: number
    }
  | { readonly status: 'queued'; readonly position: number }
  | { readonly status: 'refused'; readonly holder: HolderView | null }
  | { readonly status: 'full'; readonly waiters: number }
  | { readonly status: 'ended'; readonly kind: OutcomeKind; readonly value: string | null }

export interface HolderView extends Requester {
  readonly attempt: number
  readonly since: number
  readonly expiresAt: number
  readonly progress: string | null
}

/** The rows of another operation of the same resource. */
export type Others<Rows> = (operation: string) => Rows

/** Runs a rule on rows that answer at once. `others` is used only when operations exclude each other. */
export function runNow<Answer>(
  rule: Rule<Answer>,
  rows: WaitQueueRows,
  others: Others<WaitQueueRows> = alone,
): Answer {
  let step = rule.next()
  while (!step.done) {
    let target = rows
    let question: RowQuestion = step.value
    for (; question[0] === 'of'; question = question[2]) target = others(question[1])
    // No question has more than two arguments. Spreading a list of them costs more than most answers.
    step = rule.next((target[question[0]] as (...args: unknown[]) => never)(question[1], question[2]))
  }
  return step.value
}

function alone(operation: string): never {
  throw new Error(`The rule has one wait queue but asked for that of ${operation}.`)
}
