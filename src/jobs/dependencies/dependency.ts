import { SignalboxError } from '../../core/errors.ts'
import { oneOf, onlyKeys, show, text } from '../../core/options.ts'
import type { NewDependencies } from './dependency-store.ts'

/** What happens to a job when one that it depends on is dead, cancelled or gone. */
export type OnFailure = 'cancel' | 'run' | 'wait'

/** A lock: an operation on a resource. */
export interface JobLock {
  readonly operation: string
  readonly resource: string
}

/** Jobs that must have completed first: their ids, in `addMany` also the `ref`s of others in the same list. */
export type AfterOptions =
  | string
  | readonly string[]
  | {
      readonly jobs: string | readonly string[]
      /** `cancel`: the job is cancelled too. `run`: it runs anyway. `wait`: it waits until the other was retried. @default 'cancel' */
      readonly onFailure?: OnFailure | undefined
    }

/** What a job can depend on. */
export interface DependencyOptions {
  readonly after?: AfterOptions | null | undefined
  readonly lock?: JobLock | null | undefined
}

/** What is kept in the job's metadata. */
export interface DependencyMeta {
  readonly lock?: JobLock
  readonly onFailure?: OnFailure
}

const maxDependencies = 1_000
const policies = ['cancel', 'run', 'wait'] as const

/** Checks a job's dependencies. `dependsOn` is null if it has none. Throws `invalid_argument`. */
export function resolveDependencies(
  name: string,
  { after, lock }: DependencyOptions,
): { readonly dependsOn: NewDependencies | null; readonly meta: DependencyMeta } {
  const dependencies =
    after === undefined || after === null ? undefined : resolveAfter(`${name}.after`, after)
  const line = lock === undefined || lock === null ? null : resolveLock(`${name}.lock`, lock)
  const ids = dependencies?.ids ?? []
  if (ids.length === 0 && line === null) return nothing
  const onFailure = ids.length === 0 ? 'cancel' : dependencies!.onFailure
  return {
    dependsOn: { jobs: ids, lock: line },
    meta: { ...(line && { lock: line }), ...(onFailure === 'cancel' ? {} : { onFailure }) },
  }
}

const nothing = { dependsOn: null, meta: {} } as const

function resolveAfter(name: string, after: unknown): { ids: readonly string[]; onFailure: OnFailure } {
  if (typeof after === 'string' || Array.isArray(after))
    return { ids: namesOf(name, after), onFailure: 'cancel' }
  if (typeof after !== 'object' || after === null) throw notNames(name, after)
  onlyKeys(name, after, ['jobs', 'onFailure'])
  const { jobs, onFailure = 'cancel' } = after as { jobs?: unknown; onFailure?: unknown }
  return { ids: namesOf(`${name}.jobs`, jobs), onFailure: oneOf(`${name}.onFailure`, onFailure, policies) }
}

function namesOf(name: string, value: unknown): readonly string[] {
  if (typeof value === 'string') return [text(name, value)]
  if (!Array.isArray(value) || value.length > maxDependencies) throw notNames(name, value)
  return [...new Set(Array.from(value, (id, at) => text(`${name}[${at}]`, id)))]
}

function notNames(name: string, value: unknown): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `${name} must be the id of a job, or a list of up to ${maxDependencies} ids, not ${show(value)}.`,
    { details: { option: name } },
  )
}

function resolveLock(name: string, value: unknown): JobLock {
  if (typeof value !== 'object' || value === null) {
    throw new SignalboxError(
      'invalid_argument',
      `${name} must be a line such as { operation: 'pull', resource: 'nginx:1.29' }, not ${show(value)}.`,
      { details: { option: name } },
    )
  }
  onlyKeys(name, value, ['operation', 'resource'])
  const { operation, resource } = value as { operation?: unknown; resource?: unknown }
  return {
    operation: text(`${name}.operation`, operation),
    resource: text(`${name}.resource`, resource),
  }
}
