import { real, whole, withDefaults } from '../core/options.ts'

/** What a recorder can be told. */
export interface ContentionOptions {
  /** A wait above this is slow. A healthy machine stays below it. @default 500 */
  readonly warnMs?: number | undefined
  /** Slow waits of a kind within this time are one `slow` event. @default 60_000 */
  readonly warnEveryMs?: number | undefined
  /** The most kinds of commands; what comes beyond is counted as `other`. @default 512 */
  readonly maxKinds?: number | undefined
  /** The most keys of locks that are remembered. @default 1_000 */
  readonly maxKeys?: number | undefined
}

/** Whole. */
export type ResolvedContentionOptions = { readonly [Key in keyof ContentionOptions]-?: number }

/** What a recorder does unless told otherwise. */
export const contentionDefaults: ResolvedContentionOptions = {
  warnMs: 500,
  warnEveryMs: 60_000,
  maxKinds: 512,
  maxKeys: 1_000,
}

export function resolveContentionOptions(options: ContentionOptions | undefined): ResolvedContentionOptions {
  const given = withDefaults<ResolvedContentionOptions>(
    'createContention',
    options as never,
    contentionDefaults,
  )
  return Object.freeze({
    warnMs: real('warnMs', given.warnMs),
    warnEveryMs: whole('warnEveryMs', given.warnEveryMs),
    maxKinds: whole('maxKinds', given.maxKinds, { min: 16, max: 4_096 }),
    maxKeys: whole('maxKeys', given.maxKeys, { min: 1, max: 100_000 }),
  })
}
