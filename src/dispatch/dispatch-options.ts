import type { Duration } from '../core/duration.ts'
import { createId } from '../core/ids.ts'
import { duration, type Range, real, text, whole, withDefaults } from '../core/options.ts'
import { type MailboxOptions, mailboxDefaults } from './registry/mailbox.ts'
import { type RegistryPolicy, registryDefaults } from './registry/registry-state.ts'

/** How a dispatcher works. */
export interface DispatchOptions {
  /** How often nodes send heartbeats; the welcome says so. @default 15_000 */
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
export interface ResolvedDispatchOptions
  extends Readonly<Record<keyof typeof dispatchDefaults | 'suspectAfterMs' | 'goneAfterMs', number>> {
  readonly policy: RegistryPolicy
  readonly mailbox: Required<MailboxOptions>
  readonly workerId: string
}

/** The defaults. `suspectAfterMs` and `goneAfterMs` are two and three heartbeats. */
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

type DefaultedOptions = { readonly [Key in keyof DispatchOptions]-?: DispatchOptions[Key] }

const defaults: DefaultedOptions = {
  ...dispatchDefaults,
  ...{ suspectAfterMs: undefined, goneAfterMs: undefined },
  ...{ policy: undefined, mailbox: undefined, workerId: undefined },
}
const hourMs = 3_600_000

/** Checks a dispatcher's options and makes them whole. */
export function resolveDispatchOptions(options: DispatchOptions = {}): ResolvedDispatchOptions {
  const given = withDefaults('dispatch', options, defaults)
  const span = (name: keyof DispatchOptions, min: number, max: number, fallback?: number) =>
    duration(`dispatch.${name}`, given[name] ?? fallback, { min, max })
  const heartbeatMs = span('heartbeatMs', 10, hourMs)
  const suspectAfterMs = span('suspectAfterMs', heartbeatMs, 10 * hourMs, 2 * heartbeatMs)
  return Object.freeze({
    heartbeatMs,
    suspectAfterMs,
    goneAfterMs: span('goneAfterMs', suspectAfterMs, 10 * hourMs, Math.max(3 * heartbeatMs, suspectAfterMs)),
    closedGraceMs: span('closedGraceMs', 0, hourMs),
    leaseMs: span('leaseMs', 300, hourMs),
    serverLeaseMs: span('serverLeaseMs', 300, hourMs),
    pollMs: span('pollMs', 10, hourMs),
    maxAttempts: whole('dispatch.maxAttempts', given.maxAttempts, { min: 1, max: 100 }),
    maxHeld: whole('dispatch.maxHeld', given.maxHeld, { min: 1, max: 1_000_000 }),
    maxHeldBytes: whole('dispatch.maxHeldBytes', given.maxHeldBytes, { min: 1_048_576 }),
    rebuildMs: span('rebuildMs', 0, 24 * hourMs),
    policy: resolvePolicy(given.policy),
    mailbox: resolveMailbox(given.mailbox),
    workerId: text('dispatch.workerId', given.workerId ?? `dispatch-${createId()}`),
  })
}

/** A policy as it is given: what is left out is as in `registryDefaults`, also within weights and vetoes. */
export type PolicyOptions = Partial<Omit<RegistryPolicy, 'weights' | 'veto'>> & {
  readonly weights?: Partial<RegistryPolicy['weights']> | undefined
  readonly veto?: Partial<RegistryPolicy['veto']> | undefined
}

const span: Range = { max: 31 * 86_400_000 }
const spanFromOne: Range = { ...span, min: 1 }
const many: Range = { min: 1, max: 10_000_000 }
const buckets: Range = { max: 32 }

/** A turn of the registry is as long as its slice: a billion steps would block the process. */
const wholes: Readonly<Record<Exclude<keyof RegistryPolicy, 'weights' | 'veto'>, Range>> = {
  seed: { max: 2 ** 32 - 1 },
  acceptMs: span,
  cancelGraceMs: span,
  restMs: spanFromOne,
  retryInMs: span,
  maxRejects: many,
  ageMs: spanFromOne,
  holdAfterMs: span,
  maxWaiting: { ...many, min: 0 },
  maxWaitingPerTenant: { ...many, min: 0 },
  sessionMs: span,
  maxSessions: many,
  escapeBuckets: buckets,
  preferBuckets: buckets,
  maxPoolsScanned: many,
  maxDemands: many,
  sliceSteps: { min: 1, max: 100_000 },
  publishMs: spanFromOne,
  keepMs: spanFromOne,
}

const mailboxWholes: Readonly<Record<Exclude<keyof MailboxOptions, 'turnMs'>, Range>> = {
  turnCommands: { min: 1, max: 100_000 },
  maxDispatches: many,
  maxResults: many,
  maxAdmin: many,
}

const weightRanges = { used: { max: 1 }, cpu: { max: 1_000 }, gpu: { max: 1_000 }, memory: { max: 1_000 } }
const vetoRanges = { cpu: { max: 1_000 }, gpu: { max: 1_000 }, memory: { max: 1_000 } }

/** Checks how the registry is to decide, and makes it whole. */
function resolvePolicy(given: PolicyOptions | undefined): RegistryPolicy {
  const name = 'dispatch.policy'
  const policy = withDefaults<PolicyOptions>(name, given, registryDefaults)
  const weights = withDefaults(`${name}.weights`, policy.weights, registryDefaults.weights)
  const veto = withDefaults(`${name}.veto`, policy.veto, registryDefaults.veto)
  return Object.freeze({
    ...checked(name, policy as RegistryPolicy, wholes, whole),
    weights: checked(`${name}.weights`, weights, weightRanges, real),
    veto: checked(`${name}.veto`, veto, vetoRanges, real),
  })
}

/** The same for how much may wait before it. */
function resolveMailbox(given: MailboxOptions | undefined): Required<MailboxOptions> {
  const name = 'dispatch.mailbox'
  const limits = withDefaults(name, given, mailboxDefaults)
  return Object.freeze({
    ...checked(name, limits, mailboxWholes, whole),
    turnMs: real(`${name}.turnMs`, limits.turnMs, { min: 0.1, max: 1_000 }),
  })
}

/** Checks each number against its range, under its own name. */
function checked<Key extends string>(
  name: string,
  given: Readonly<Record<Key, number>>,
  ranges: Readonly<Record<Key, Range>>,
  check: typeof whole,
): Record<Key, number> {
  const keys = Object.keys(ranges) as Key[]
  const entries = keys.map((key) => [key, check(`${name}.${key}`, given[key], ranges[key])])
  return Object.fromEntries(entries) as Record<Key, number>
}
