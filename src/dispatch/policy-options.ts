import { onlyKeys, type Range, real, whole } from '../core/options.ts'
import { type MailboxOptions, mailboxDefaults } from './registry/mailbox.ts'
import { type RegistryPolicy, registryDefaults } from './registry/policy.ts'

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

/** Checks how the registry is to decide, and makes it whole. */
export function resolvePolicy(given: PolicyOptions = {}): RegistryPolicy {
  const name = 'dispatch.policy'
  const { weights: defaultWeights, veto: defaultVeto } = registryDefaults
  onlyKeys(name, given, Object.keys(registryDefaults))
  const weights = reals(`${name}.weights`, given.weights, defaultWeights, 1_000)
  return Object.freeze({
    ...numbers(name, given, registryDefaults, wholes),
    weights: { ...weights, used: real(`${name}.weights.used`, weights.used, { max: 1 }) },
    veto: reals(`${name}.veto`, given.veto, defaultVeto, 1_000),
  })
}

/** The same for how much may wait before it. */
export function resolveMailbox(given: MailboxOptions = {}): Required<MailboxOptions> {
  const name = 'dispatch.mailbox'
  onlyKeys(name, given, Object.keys(mailboxDefaults))
  const turnMs = given.turnMs ?? mailboxDefaults.turnMs
  return Object.freeze({
    ...numbers(name, given, mailboxDefaults, mailboxWholes),
    turnMs: real(`${name}.turnMs`, turnMs, { min: 0.1, max: 1_000 }),
  })
}

function numbers<Key extends string>(
  name: string,
  given: { readonly [Each in Key]?: number | undefined },
  defaults: Readonly<Record<Key, number>>,
  ranges: Readonly<Record<Key, Range>>,
): Record<Key, number> {
  const keys = Object.keys(ranges) as Key[]
  const checked = keys.map((key) => [key, whole(`${name}.${key}`, given[key] ?? defaults[key], ranges[key])])
  return Object.fromEntries(checked) as Record<Key, number>
}

function reals<Key extends string>(
  name: string,
  given: { readonly [Each in Key]?: number | undefined } | undefined,
  defaults: Readonly<Record<Key, number>>,
  max: number,
): Record<Key, number> {
  const keys = Object.keys(defaults) as Key[]
  if (given !== undefined) onlyKeys(name, given, keys)
  const checked = keys.map((key) => [key, real(`${name}.${key}`, given?.[key] ?? defaults[key], { max })])
  return Object.fromEntries(checked) as Record<Key, number>
}
