import type { Duration } from '../core/duration.ts'
import { createId } from '../core/ids.ts'
import { duration, type Range, real, text, whole, withDefaults } from '../core/options.ts'
import { type MailboxOptions, mailboxDefaults } from './registry/mailbox.ts'
import { type RegistryPolicy, registryDefaults } from './registry/registry-state.ts'

/** The options of a dispatcher. */
export interface DispatchOptions {
  /** How often nodes send heartbeats. The server sends it to them in `welcome`. @default 15_000 */
  readonly heartbeatMs?: Duration | undefined
  /** A node that is silent for this time gets no new work. @default twice heartbeatMs */
  readonly suspectAfterMs?: Duration | undefined
  /**
   * A node that is silent for this time is dead: its tasks continue on other nodes. @default three times heartbeatMs
   */
  readonly goneAfterMs?: Duration | undefined
  /** A node is dead if it does not reconnect within this time after its socket closed. @default 2_000 */
  readonly closedGraceMs?: Duration | undefined
  /** The lease of claimed tasks: a dead server's tasks are claimed again after this time. @default 30_000 */
  readonly leaseMs?: Duration | undefined
  /** The others ignore a server that has not renewed its row for this time. @default 10_000 */
  readonly serverLeaseMs?: Duration | undefined
  /** How often to claim tasks without a wake-up. @default 1_000 */
  readonly pollMs?: Duration | undefined
  /** The attempts of a task; then it fails as `poison`. @default 5 */
  readonly maxAttempts?: number | undefined
  /** The most tasks that this process holds; others wait in the store. @default 50_000 */
  readonly maxHeld?: number | undefined
  /** The most bytes of payloads that this process holds. @default 268_435_456 */
  readonly maxHeldBytes?: number | undefined
  /** How often all pools are built again; 0: only when their rules change. @default 600_000 */
  readonly rebuildMs?: Duration | undefined
  /** How the registry decides. @default registryDefaults */
  readonly policy?: PolicyOptions | undefined
  /** @default mailboxDefaults */
  readonly mailbox?: MailboxOptions | undefined
  /** The name of this process in its claims and among the servers. It must be unique. @default a new name */
  readonly workerId?: string | undefined
}

/** Complete and checked options. */
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

/** Checks the options of a dispatcher and completes them. */
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

/** `sliceSteps` has a limit, because a turn of the registry is as long as its slice. */
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

/** Checks the policy of the registry and completes it. */
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

/** Checks the limits of the mailbox and completes them. */
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
