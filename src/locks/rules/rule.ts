import type { OutcomeKind, Requester, WaitQueueRows, Want } from './wait-queue.ts'

/**
 * What a rule is, what it is asked with and what it answers. A rule is a generator: it asks for rows by yielding and is
 * given them, at once by a store in this process, later by one across a connection.
 */
export type Rule<Answer> = Generator<Ask, Answer, Given>

// biome-ignore lint/suspicious/noExplicitAny: what a yield is given has the type of the method it asked for.
export type Given = any

/** A question to the rows of the rule's queue: the method, and what it is asked with. */
export type OwnAsk = {
  [Name in keyof WaitQueueRows]: readonly [Name, ...Parameters<WaitQueueRows[Name]>]
}[keyof WaitQueueRows]

/** A question to those, or to the rows of another operation of the same resource. */
export type Ask = OwnAsk | readonly ['of', operation: string, ask: Ask]

/**
 * Operations that exclude each other on a resource: pairs of their names. Nothing of this is looked at unless a rule
 * names the operation.
 */
export type Conflicts = readonly (readonly [string, string])[]

/** How long things last, in milliseconds; and what excludes what. */
export interface LockTimes {
  /** A waiter that neither asks nor has a stream. @default 30_000 */
  readonly waiterLeaseMs: number
  /** To take up a grant, with an open stream. @default 2_000 */
  readonly streamedTakeUpMs: number
  /** To take up a grant, without. @default 10_000 */
  readonly takeUpMs: number
  /** How long an outcome is kept for its waiters. @default 60_000 */
  readonly keepMs: number
  /** After an expired lease, the lock grants nothing for this time. @default 0 */
  readonly lockDelayMs: number
  /** @default 10_000 */
  readonly maxWaiters: number
  /** Operations that exclude each other on a resource. @default none */
  readonly conflicts?: Conflicts
}

/** Whom to wake after a step, because something changed for them. */
export interface Notified {
  /** Those whose own standing changed: granted, ended. */
  readonly requesters: readonly Requester[]
  /** All waiters get the end. */
  readonly everyone: boolean
  /** Whether the wait queue changed at all, for those who only look on. */
  readonly changed: boolean
  /** A turn ended because its lease ran out; counters need it. @default it did not */
  readonly lapsed?: true
}

export type Ruled<Answer> = Answer & {
  readonly notified: Notified
  /** The wait queue's, after this step; 0 when it has never been touched. */
  readonly revision: number
  /** What it changed in wait queues of the same resource whose operations exclude this one. */
  readonly elsewhere?: readonly { readonly operation: string; readonly notified: Notified }[]
}

/** What the end of a turn comes to. */
export interface Released {
  /** Undefined: it was not the holder's any more. */
  readonly released: { readonly next: Requester | null } | undefined
  /** Of the next holder; undefined also where the store does not know it any more. */
  readonly granted?: Grant | undefined
}

/** What a holder has to know of its grant. */
export interface Grant {
  readonly token: number
  readonly attempt: number
}

/** How long a grant lasts without renewal, unless another time is asked for. */
export const defaultTtlMs = 30_000

export interface RenewTerms {
  /** For how long. Undefined: the last `ttlMs`, of the acquire or of an earlier renewal. */
  readonly ttlMs: number | undefined
  readonly progress: string | null | undefined
}

export interface AcquireAsk extends Requester {
  readonly wait: boolean
  readonly want: Want
  readonly ttlMs: number
  readonly deadlineMs: number | null
  readonly isStreamed: boolean
}

/** Instants here are of the wall clock. */
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

/** Runs a rule on rows that answer at once. `others` is asked only where operations exclude each other. */
export function runNow<Answer>(
  rule: Rule<Answer>,
  rows: WaitQueueRows,
  others: Others<WaitQueueRows> = alone,
): Answer {
  let step = rule.next()
  while (!step.done) {
    let target = rows
    let ask: Ask = step.value
    for (; ask[0] === 'of'; ask = ask[2]) target = others(ask[1])
    // No question has more than two; taking a list of them apart and together again costs more than most answers.
    step = rule.next((target[ask[0]] as (...args: unknown[]) => never)(ask[1], ask[2]))
  }
  return step.value
}

function alone(operation: string): never {
  throw new Error(`The wait queue of ${operation} was asked for by a rule that was given one wait queue.`)
}
