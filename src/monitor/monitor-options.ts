import type { Duration } from '../core/duration.ts'
import { invalidArgument } from '../core/errors.ts'
import { duration, show, text, whole, withDefaults } from '../core/options.ts'
import { parseAddressRules } from './delivery/address-rules.ts'

/** The options of a box's monitor. */
export interface MonitorOptions {
  /** The lease of a report on its task; the report renews it while it runs. @default 30_000 */
  readonly lockTtlMs?: Duration | undefined
  /** How long the same state is not notified again, unless a subscription sets it. @default 300_000 */
  readonly notificationIntervalMs?: Duration | undefined
  /** How long the same change counts as the same event. @default 300_000 */
  readonly eventDedupTtlMs?: Duration | undefined
  /** How long the monitor remembers a reported task. @default 86_400_000 */
  readonly taskKeepMs?: Duration | undefined
  /** How long decisions and settled notifications are kept. @default 604_800_000 */
  readonly keepMs?: Duration | undefined
  /** The subjects that are decided and written together. @default 100 */
  readonly batchSize?: number | undefined
  /** The batches in progress at once. @default 10 */
  readonly maxConcurrent?: number | undefined
  /**
   * Fields of states that the comparison ignores: `updatedAt`, or a path such as `offer.seenAt` or `/offer/seenAt`.
   * @default none
   */
  readonly ignore?: readonly string[] | undefined
  /** Private addresses and ranges that channels may reach, such as '127.0.0.0/8'. @default none */
  readonly allowPrivate?: readonly string[] | undefined
}

export const monitorDefaults: Required<{
  readonly [Key in keyof MonitorOptions]: NonNullable<MonitorOptions[Key]>
}> = {
  lockTtlMs: 30_000,
  notificationIntervalMs: 300_000,
  eventDedupTtlMs: 300_000,
  taskKeepMs: 86_400_000,
  keepMs: 604_800_000,
  batchSize: 100,
  maxConcurrent: 10,
  ignore: [],
  allowPrivate: [],
}

type ListOption = 'ignore' | 'allowPrivate'

/** Complete and checked options; spans are in milliseconds. */
export type ResolvedMonitorOptions = Readonly<
  Record<Exclude<keyof MonitorOptions, ListOption>, number> & Record<ListOption, readonly string[]>
>

const day = 86_400_000
const year = 365 * day

export function resolveMonitorOptions(options: MonitorOptions = {}): ResolvedMonitorOptions {
  const given = withDefaults<{ [Key in keyof typeof monitorDefaults]: unknown }>(
    'monitor',
    options,
    monitorDefaults,
  )
  const span = (name: keyof MonitorOptions, min: number, max: number) =>
    duration(`monitor.${name}`, given[name], { min, max })
  const allowPrivate = textList('monitor.allowPrivate', given.allowPrivate)
  // Every channel parses this list again. Parse it here too, so that a mistake throws at once.
  parseAddressRules(allowPrivate)
  return Object.freeze({
    lockTtlMs: span('lockTtlMs', 100, day),
    notificationIntervalMs: span('notificationIntervalMs', 0, year),
    eventDedupTtlMs: span('eventDedupTtlMs', 1, year),
    taskKeepMs: span('taskKeepMs', 1, 10 * year),
    keepMs: span('keepMs', 60_000, 10 * year),
    batchSize: whole('monitor.batchSize', given.batchSize, { min: 1, max: 1_000 }),
    maxConcurrent: whole('monitor.maxConcurrent', given.maxConcurrent, { min: 1, max: 100 }),
    ignore: resolveIgnore('monitor.ignore', given.ignore),
    allowPrivate,
  })
}

/** Returns paths of fields in the form `offer.seenAt`. */
export function resolveIgnore(name: string, value: unknown): readonly string[] {
  return textList(name, value).map((path) => (path.startsWith('/') ? fromPointer(path) : path))
}

/** Converts `/offer/seen~1at` into `offer.seen/at`. */
function fromPointer(pointer: string): string {
  const parts = pointer.slice(1).split('/')
  return parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~')).join('.')
}

function textList(name: string, value: unknown): readonly string[] {
  if (Array.isArray(value) && value.length <= 1_000)
    return value.map((item, index) => text(`${name}[${index}]`, item))
  throw invalidArgument(`${name} must be a list of at most 1000 texts, not ${show(value)}.`, name)
}
