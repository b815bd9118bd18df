import { flag, onlyKeys, text } from '../core/options.ts'
import { resolveSealer, type Sealer } from './encryption/sealer.ts'

/** Options for the jobs and workers of a box. */
export interface JobsOptions {
  /** Seals payloads and results before the store gets them. @default none: they are stored in plain */
  readonly sealer?: Sealer | undefined
  /** The version of your program, which its workers show, such as '2026-11-18.3' or a commit. @default none */
  readonly release?: string | undefined
  /**
   * Whether workers of this box keep a row in the store, so that operators see and stop them: `jobs.workers()`.
   * @default true
   */
  readonly membership?: boolean | undefined
}

export interface ResolvedJobsOptions {
  readonly sealer: Sealer | undefined
  readonly release: string | null
  readonly membership: boolean
}

export const jobsOptionKeys = ['sealer', 'release', 'membership'] as const

/** Checks the options of a box's jobs. */
export function resolveJobsOptions(name: string, options: JobsOptions = {}): ResolvedJobsOptions {
  onlyKeys(name, options, jobsOptionKeys)
  const { release, membership = true } = options
  return {
    sealer: resolveSealer(name, options),
    release: resolveRelease(`${name}.release`, release),
    membership: flag(`${name}.membership`, membership),
  }
}

export function resolveRelease(name: string, release: string | undefined): string | null {
  return release === undefined ? null : text(name, release)
}
