import type { Duration } from '../core/duration.ts'
import { createId } from '../core/ids.ts'
import { duration, onlyKeys, text, whole } from '../core/options.ts'
import { type PolicyOptions, resolveMailbox, resolvePolicy } from './policy-options.ts'
import type { MailboxOptions } from './registry/mailbox.ts'
import type { RegistryPolicy } from './registry/policy.ts'

/** How a dispatcher works. */
export interface DispatchOptions {
  /** How often nodes are to speak; they are told so. @default 15_000 */
  readonly heartbeatMs?: Duration | undefined
  /** Silent for so long, a node gets no new work. @default twice heartbeatMs */
  readonly suspectAfterMs?: Duration | undefined
  /** Silent for so long, it is dead and its tasks go on elsewhere. @default three times heartbeatMs */
  readonly goneAfterMs?: Duration | undefined
  /** How long a node may stay away after its socket closed before it is dead. @default 2_000 */
  readonly closedGraceMs?: Duration | undefined
  /** How long tasks stay with a server that gives no sign of life. @default 30_000 */
  readonly leaseMs?: Duration | undefined
  /** A server that gives the others no sign of life for so long does not count any more. @default 10_000 */
  readonly serverLeaseMs?: Duration | undefined
  /** How often to look for tasks without a wake-up. @default 1_000 */
  readonly pollMs?: Duration | undefined
  /** Attempts of a task before it is given up as poison. @default 5 */
  readonly maxAttempts?: number | undefined
  /** The most tasks that this process holds; others wait in the store. @default 50_000 */
  readonly maxHeld?: number | undefined
  /** The same in bytes of their payloads. @default 268_435_456 */
  readonly maxHeldBytes?: number | undefined
  /** All pools are built anew this often; 0: only when their rules change. @default 600_000 */
  readonly rebuildMs?: Duration | undefined
  /** How the registry decides. @default registryDefaults */
  readonly policy?: PolicyOptions | undefined
  /** @default mailboxDefaults */
  readonly mailbox?: MailboxOptions | undefined
  /** This process's name in the jobs it holds and among the servers: no two that run may have the same. @default a new one */
  readonly workerId?: string | undefined
}

/** Options that are whole and checked. */
export interface ResolvedDispatchOptions {
  readonly heartbeatMs: number
  readonly suspectAfterMs: number
  readonly goneAfterMs: number
  readonly closedGraceMs: number
  readonly leaseMs: number
  readonly serverLeaseMs: number
  readonly pollMs: number
  readonly maxAttempts: number
  readonly maxHeld: number
  readonly maxHeldBytes: number
  readonly rebuildMs: number
  readonly policy: RegistryPolicy
  readonly mailbox: Required<MailboxOptions>
  readonly workerId: string
}

/** What a dispatcher does unless told otherwise; silence is counted in heartbeats (2 and 3 of them). */
export const dispatchDefaults = {
  heartbeatMs: 15_000,
  closedGraceMs: 2_000,
  leaseMs: 30_000,
  serverLeaseMs: 10_000,
  pollMs: 1_000,
  maxAttempts: 5,
  maxHeld: 50_000,
  maxHeldBytes: 268_435_456,
  rebuildMs: 600_000,
} as const

const keys = [
  ...Object.keys(dispatchDefaults),
  'suspectAfterMs',
  'goneAfterMs',
  'policy',
  'mailbox',
  'workerId',
]
const hourMs = 3_600_000

/** Checks a dispatcher's options and makes them whole. */
export function resolveDispatchOptions(options: DispatchOptions = {}): ResolvedDispatchOptions {
  onlyKeys('dispatch', options, keys)
  const given = { ...dispatchDefaults, ...withoutUndefined(options) } as DispatchOptions
  const span = (name: keyof DispatchOptions, fallback: number, min: number, max: number) =>
    duration(`dispatch.${name}`, given[name] ?? fallback, { min, max })
  const heartbeatMs = span('heartbeatMs', dispatchDefaults.heartbeatMs, 10, hourMs)
  const suspectAfterMs = span('suspectAfterMs', 2 * heartbeatMs, heartbeatMs, 10 * hourMs)
  return Object.freeze({
    heartbeatMs,
    suspectAfterMs,
    goneAfterMs: span('goneAfterMs', Math.max(3 * heartbeatMs, suspectAfterMs), suspectAfterMs, 10 * hourMs),
    closedGraceMs: span('closedGraceMs', dispatchDefaults.closedGraceMs, 0, hourMs),
    leaseMs: span('leaseMs', dispatchDefaults.leaseMs, 300, hourMs),
    serverLeaseMs: span('serverLeaseMs', dispatchDefaults.serverLeaseMs, 300, hourMs),
    pollMs: span('pollMs', dispatchDefaults.pollMs, 10, hourMs),
    maxAttempts: whole('dispatch.maxAttempts', given.maxAttempts, { min: 1, max: 100 }),
    maxHeld: whole('dispatch.maxHeld', given.maxHeld, { min: 1, max: 1_000_000 }),
    maxHeldBytes: whole('dispatch.maxHeldBytes', given.maxHeldBytes, { min: 1_048_576 }),
    rebuildMs: span('rebuildMs', dispatchDefaults.rebuildMs, 0, 24 * hourMs),
    policy: resolvePolicy(given.policy),
    mailbox: resolveMailbox(given.mailbox),
    workerId: text('dispatch.workerId', given.workerId ?? `dispatch-${createId()}`),
  })
}

function withoutUndefined(options: object): object {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
}
