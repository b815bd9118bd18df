import type { LockKey, LockStore } from '../locks/index.ts'
import {
  acquire,
  evict,
  fail,
  groupOf,
  keep,
  type LockTimes,
  leave,
  type Notified,
  type Rule,
  type Ruled,
  release,
  renew,
  shorten,
} from '../locks/rules/index.ts'

/** The methods of a LockStore that run a rule on one wait queue. */
export type RuledLocks = Pick<
  LockStore,
  'acquire' | 'release' | 'renew' | 'shorten' | 'leave' | 'evict' | 'keep' | 'fail'
>

/**
 * Supplied by each engine: runs a rule on the rows of a wait queue, atomically. If its operation excludes others, the
 * rule may ask for the rows of all operations of the `group`: operations of the same resource, including its own.
 */
export type RunRule = <Answer>(
  key: LockKey,
  rule: () => Rule<Answer>,
  group?: readonly string[] | undefined,
) => Promise<Answer>

/** The rule of each step. */
export const lockRules: {
  readonly [Name in keyof RuledLocks]: (
    ...args: Parameters<RuledLocks[Name]> extends [LockKey, ...infer Rest] ? Rest : never
  ) => Rule<Awaited<ReturnType<RuledLocks[Name]>>>
} = { acquire, release, renew, shorten, leave, evict, fail, keep }

/** The steps on a wait queue, for an engine that stores rows. Every try creates its rule again. */
export function ruledLocks(runRule: RunRule): RuledLocks {
  const run = <Answer>(key: LockKey, rule: () => Rule<Answer>, { conflicts }: LockTimes) =>
    runRule(key, rule, groupOf(conflicts, key.operation))
  return {
    acquire: (key, ask, times) => run(key, () => acquire(ask, times), times),
    release: (key, who, end, times) => run(key, () => release(who, end, times), times),
    renew: (key, who, terms, times) => run(key, () => renew(who, terms, times), times),
    shorten: (key, who, toMs, times) => run(key, () => shorten(who, toMs, times), times),
    leave: (key, who, times) => run(key, () => leave(who, times), times),
    evict: (key, who, times) => run(key, () => evict(who, times), times),
    fail: (key, who, value, times) => run(key, () => fail(who, value, times), times),
    keep: (key, who, options, times) => run(key, () => keep(who, options, times), times),
  }
}

/** The changes that a sweep made to a wait queue, for its waiters and watchers. */
export interface SweptWaitQueue {
  readonly key: LockKey
  readonly notified: Notified
}

/** The changes of a step, in its own wait queue and in those that its operation excludes. */
export function changesOf(
  { operation, resource }: LockKey,
  { notified, elsewhere = [] }: Ruled<object>,
): readonly SweptWaitQueue[] {
  const all = [{ operation, notified }, ...elsewhere]
  return all.flatMap((one) =>
    one.notified.changed ? [{ key: { operation: one.operation, resource }, notified: one.notified }] : [],
  )
}
