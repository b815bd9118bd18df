import { real, whole, withDefaults } from '../core/options.ts'

/** What a recorder can be told. */
export interface ContentionOptions {
  /** Above how long a wait the event `slow` is told. @default 10 */
  readonly warnMs?: number | undefined
  /** How long after one `slow` of a kind no other is told of it. @default 10_000 */
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
  warnMs: 10,
  warnEveryMs: 10_000,
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
