import { duration, whole, withDefaults } from '../core/options.ts'
import type { CopyNews } from './copy-progress.ts'

export interface CopyOptions {
  /** How long to wait for leases that are not renewed. @default 60_000 */
  readonly waitMs?: number
  /** How many rows are written in one transaction, and at most lost by a kill. @default 5_000 */
  readonly pageRows?: number
  /** Called with the progress, some times a second. @default none */
  readonly onNews?: (news: CopyNews) => void
}

export const copyDefaults: Required<CopyOptions> = {
  waitMs: 60_000,
  pageRows: 5_000,
  onNews: () => undefined,
}

export function resolveCopyOptions(options: CopyOptions): Required<CopyOptions> {
  const { waitMs, pageRows, onNews } = withDefaults('copy', options, copyDefaults)
  return {
    waitMs: duration('waitMs', waitMs, { min: 0, max: 86_400_000 }),
    pageRows: whole('pageRows', pageRows, { min: 1, max: 100_000 }),
    onNews,
  }
}
