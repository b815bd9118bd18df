import type { GuardMode } from '../../../src/once/index.ts'

/** What claimers are given, the keys they claim, and what they write down. Times are of the host's monotonic clock. */
export interface ClaimerOptions {
  readonly url: string
  /** Where the guards are, when that is not in the store. */
  readonly redis: string | undefined
  readonly namespace: string
  readonly folder: string
  readonly name: string
  readonly seed: number
  /** When the campaign began: the keys change with time. */
  readonly startedAt: number
}

export interface KeyTerms {
  readonly mode: GuardMode
  readonly leaseMs: number
  readonly keepMs: number
}

/** By how a key begins. */
export const keyTerms: Readonly<Record<string, KeyTerms>> = {
  least: { mode: 'at-least-once', leaseMs: 250, keepMs: 600_000 },
  short: { mode: 'at-least-once', leaseMs: 250, keepMs: 100 },
  most: { mode: 'at-most-once', leaseMs: 250, keepMs: 600_000 },
}

/** Keys that a store might take for one another, or for something else. */
export const keyEndings: readonly string[] = ['', ' ', 'é', 'E', 'e', '{x}', "';--", '%', '\u{1F600}', ':a']

export function termsOf(key: string): KeyTerms {
  return keyTerms[key.slice(0, key.indexOf('-'))]!
}

export type GuardEvent = { readonly t: number; readonly key: string } & (
  | {
      readonly type: 'claimed'
      readonly askedAt: number
      readonly token: string
      /** The key is renewed while the work continues. */
      readonly kept: boolean
    }
  /** The claimer had reason to believe that the key was still its own. */
  | { readonly type: 'alive'; readonly token: string }
  /** Written before the store is called. */
  | { readonly type: 'ending'; readonly end: 'done' | 'failed'; readonly token: string }
  /** The store took the end, or said that the claim was lost. */
  | {
      readonly type: 'ended'
      readonly end: 'done' | 'failed'
      readonly token: string
      readonly took: boolean
    }
  /** Not to be run. Results are the tokens of their claimers. */
  | {
      readonly type: 'answered'
      readonly askedAt: number
      readonly status: 'running' | 'done' | 'stuck'
      readonly result: string | undefined
    }
  /** The final answer, after the last claim and the end of all leases. */
  | { readonly type: 'last'; readonly status: string; readonly result: string | undefined }
  | { readonly type: 'error'; readonly error: string }
)
