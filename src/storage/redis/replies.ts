import type { LockKey, WaiterView, WaitQueueView } from '../../locks/index.ts'
import type {
  HolderView,
  LastOutcome,
  Notified,
  OutcomeKind,
  Released,
  Ruled,
  Standing,
} from '../../locks/rules/index.ts'
import { decodeKey, decodeRequester } from './keys.ts'
import type { StepReply } from './stepper.ts'

/** Decodes the scripts' answers into the records of the LockStore. */

export function decodeRuled<Answer extends object>(
  [isChanged, ended, revision, notified, , elsewhere]: StepReply,
  answer: Answer,
): Ruled<Answer> {
  return {
    ...answer,
    notified: decodeNotified(ended, notified, isChanged === 1),
    revision,
    ...(elsewhere &&
      elsewhere.length > 0 && {
        elsewhere: elsewhere.map(([name, ended, notified]) => ({
          operation: decodeKey(name).operation,
          notified: decodeNotified(ended, notified, true),
        })),
      }),
  }
}

function decodeNotified(ended: number, names: readonly string[], changed: boolean): Notified {
  const notified = { requesters: names.map(decodeRequester), everyone: (ended & 1) !== 0, changed }
  return (ended & 2) === 0 ? notified : { ...notified, lapsed: true }
}

export function decodeStanding(answer: readonly unknown[]): Standing | undefined {
  const [status, first, second, third] = answer
  switch (status) {
    case 'granted':
      return { status, token: first as number, expiresAt: second as number, attempt: third as number }
    case 'queued':
      return { status, position: first as number }
    case 'refused':
      return { status, holder: decodeHolder(first as HolderReply | null) }
    case 'full':
      return { status, waiters: first as number }
    case 'ended':
      return { status, kind: first as OutcomeKind, value: second as string | null }
    default:
      return undefined
  }
}

export function decodeReleased(answer: readonly unknown[]): Released {
  const [status, next, token, attempt] = answer as readonly [string, string | null, number?, number?]
  if (status !== 'released') return { released: undefined }
  if (next === null) return { released: { next: null } }
  const granted = token === undefined ? undefined : { token, attempt: attempt! }
  return { released: { next: decodeRequester(next) }, granted }
}

type HolderReply = readonly [
  who: string,
  attempt: number,
  since: number,
  expiresAt: number,
  progress: string | null,
]

function decodeHolder(reply: HolderReply | null): HolderView | null {
  if (reply === null) return null
  const [who, attempt, since, expiresAt, progress] = reply
  return { ...decodeRequester(who), attempt, since, expiresAt, progress }
}

type WaiterReply = readonly [who: string, seq: number, since: number, wantsTurn: number]
type LastReply = readonly [kind: number, who: string, attempt: number, at: number, value: string | null]

/** A wait queue's current state. Undefined: the wait queue does not exist. */
export function decodeQueue(key: LockKey, reply: StepReply, limit: number): WaitQueueView | undefined {
  const [, , revision, , [status, , holder, waiterCount, waiters, last]] = reply
  if (status !== 'queue') return undefined
  return {
    operation: key.operation,
    resource: key.resource,
    revision,
    holder: decodeHolder(holder as HolderReply | null),
    waiters: decodeWaiters(waiters as readonly WaiterReply[], limit),
    waiterCount: waiterCount as number,
    lastOutcome: decodeLast(last as LastReply | null),
  }
}

/** Whether a wait queue has a holder or waiters. A holder with an expired lease counts. */
export function isBusy([, , , , [status, isBusy]]: StepReply): boolean {
  return status === 'queue' && isBusy === 1
}

/** Merges the waiters for the result and the waiters for a turn into one order, and returns the first ones. */
function decodeWaiters(replies: readonly WaiterReply[], limit: number): readonly WaiterView[] {
  return [...replies]
    .sort(([, a], [, b]) => a - b)
    .slice(0, limit)
    .map(([who, , since, wantsTurn], index) => ({
      ...decodeRequester(who),
      position: index + 1,
      since,
      want: wantsTurn === 1 ? 'turn' : 'result',
    }))
}

function decodeLast(reply: LastReply | null): LastOutcome | null {
  if (reply === null) return null
  const [kind, who, attempt, at, value] = reply
  return { outcome: kind === 1 ? 'success' : 'failure', node: decodeRequester(who).node, attempt, at, value }
}
