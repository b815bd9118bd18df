import { AssertionError } from 'node:assert'
import { encodeJson } from '../core/json.ts'
import { onlyKeys, text, whole } from '../core/options.ts'
import type { AddTarget, AnyDefinition, Job, JobDefinition, JobState, Jobs } from '../jobs/index.ts'
import { listAll } from './drain.ts'

/** An object with jobs that can be listed: a test box, or any other box. */
export interface HasJobs {
  readonly jobs: Pick<Jobs, 'list'>
}

/** A part of a value: of an object any of its fields, and of each field any part. */
export type PartOf<Value> = Value extends readonly (infer Item)[]
  ? readonly PartOf<Item>[]
  : Value extends object
    ? { readonly [Key in keyof Value]?: PartOf<Value[Key]> | undefined }
    : Value

/** A part of the payload of a definition. For a kind without a definition, any value. */
export type PartFor<Target extends AddTarget> =
  Target extends JobDefinition<string, infer Input, infer _> ? PartOf<Input> : unknown

/** Further conditions for the jobs. */
export interface AddedOptions {
  /** Only jobs of this queue. @default any */
  readonly queue?: string | undefined
  /** The exact number. @default one or more */
  readonly count?: number | undefined
}

/** Asserts that such a job was added, in any state. Returns these jobs, newest first. */
export async function assertAdded<const Target extends AddTarget>(
  box: HasJobs,
  kind: Target,
  part?: PartFor<Target>,
  options: AddedOptions = {},
): Promise<readonly Job[]> {
  return assertThere(assertAdded, box, { kind, part, options, state: undefined })
}

/** Asserts that no such job was added. */
export async function assertNotAdded<const Target extends AddTarget>(
  box: HasJobs,
  kind: Target,
  part?: PartFor<Target>,
  options: Pick<AddedOptions, 'queue'> = {},
): Promise<void> {
  onlyKeys('options', options, ['queue'])
  await assertThere(assertNotAdded, box, { kind, part, options: { ...options, count: 0 }, state: undefined })
}

/** Asserts that such a job completed. Returns these jobs, newest first. */
export async function assertCompleted<const Target extends AddTarget>(
  box: HasJobs,
  kind: Target,
  part?: PartFor<Target>,
  options: AddedOptions = {},
): Promise<readonly Job[]> {
  return assertThere(assertCompleted, box, { kind, part, options, state: 'completed' })
}

/** Asserts that such a job is dead. Returns these jobs, newest first, each with its `error`. */
export async function assertDead<const Target extends AddTarget>(
  box: HasJobs,
  kind: Target,
  part?: PartFor<Target>,
  options: AddedOptions = {},
): Promise<readonly Job[]> {
  return assertThere(assertDead, box, { kind, part, options, state: 'dead' })
}

interface Wanted {
  readonly kind: string | AnyDefinition
  readonly part: unknown
  readonly options: AddedOptions
  readonly state: JobState | undefined
}

async function assertThere(
  // biome-ignore lint/complexity/noBannedTypes: it is only compared with the frames of a stack.
  asserted: Function,
  { jobs }: HasJobs,
  wanted: Wanted,
): Promise<readonly Job[]> {
  onlyKeys('options', wanted.options, ['queue', 'count'])
  const { state, options } = wanted
  // Encoded like a payload. A value that no payload can have, such as a Date, is an error instead of never fitting.
  const part: unknown = wanted.part === undefined ? undefined : JSON.parse(encodeJson('part', wanted.part))
  const kind = text('kind', typeof wanted.kind === 'string' ? wanted.kind : wanted.kind?.kind)
  const queue = options.queue === undefined ? undefined : text('options.queue', options.queue)
  const count = options.count === undefined ? undefined : whole('options.count', options.count)
  const all = await listAll(jobs)
  const fitting = all.filter(
    (job) =>
      job.kind === kind &&
      (queue === undefined || job.queue === queue) &&
      (state === undefined || job.state === state) &&
      (part === undefined || fitsPart(job.payload, part)),
  )
  if (count === undefined ? fitting.length > 0 : fitting.length === count) return fitting
  throw new AssertionError({
    message: [
      `Expected ${tellWanted(kind, part, queue, count, state)}, but there ${fitting.length === 1 ? 'is 1' : `are ${fitting.length || 'none'}`}.`,
      ...describeJobs(all, kind),
    ].join('\n'),
    actual: fitting.length,
    expected: count ?? 'one or more',
    operator: asserted.name,
    stackStartFn: asserted,
  })
}

function tellWanted(
  kind: string,
  part: unknown,
  queue: string | undefined,
  count: number | undefined,
  state: JobState | undefined,
): string {
  const many = count === undefined ? 'one or more jobs' : count === 1 ? '1 job' : `${count || 'no'} jobs`
  const where = queue === undefined ? '' : ` in the queue "${queue}"`
  const what = part === undefined ? '' : ` with the payload (or part of it) ${JSON.stringify(part)}`
  return `${many} of the kind "${kind}"${where}${what} to be ${state ?? 'there'}`
}

/**
 * Whether every field of `part` is in `value` too, at every depth; lists must be as long, and their items fit one by
 * one.
 */
export function fitsPart(value: unknown, part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return Object.is(value, part)
  if (typeof value !== 'object' || value === null || Array.isArray(value) !== Array.isArray(part))
    return false
  if (Array.isArray(part) && part.length !== (value as unknown[]).length) return false
  return Object.entries(part).every(([key, wanted]) => {
    // An undefined field counts as absent, as in JSON.
    const own = Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined
    return fitsPart(own, wanted)
  })
}

const maxShown = 20
const maxPayload = 120

/** Describes the present jobs, one line each; jobs of the kind come first. */
export function describeJobs(jobs: readonly Job[], kind: string): readonly string[] {
  if (jobs.length === 0) return ['There are no jobs at all.']
  const sorted = jobs.toSorted((a, b) => Number(b.kind === kind) - Number(a.kind === kind))
  const lines = sorted.slice(0, maxShown).map(describeJob)
  const more = jobs.length - lines.length
  return [
    jobs.length === 1 ? 'There is 1 job:' : `There are ${jobs.length} jobs, newest first:`,
    ...lines,
    ...(more > 0 ? [`  and ${more} more`] : []),
  ]
}

function describeJob({ kind, queue, state, payload, error, attempt, maxAttempts }: Job): string {
  const json = JSON.stringify(payload)
  const shown = json.length > maxPayload ? `${json.slice(0, maxPayload)}…` : json
  const why =
    error === null ? '' : ` · ${error.code ?? error.name ?? 'error'}: ${error.message.split('\n')[0]}`
  return `  ${kind} in "${queue}", ${state} (attempt ${attempt} of ${maxAttempts}): ${shown}${why}`
}
