import {
  acquire,
  evict,
  keep,
  leave,
  type Requester,
  type Rule,
  release,
  renew,
  shorten,
} from '../lines/index.ts'
import type { LockKey, LockStore } from '../locks/index.ts'

/** The part of a LockStore that is a rule on one line. */
export type RuledLocks = Pick<
  LockStore,
  'acquire' | 'release' | 'renew' | 'shorten' | 'leave' | 'evict' | 'keep'
>

/** What an engine has to say: how a rule is run on the rows of a line, atomically. */
export type RunRule = <Answer>(key: LockKey, rule: () => Rule<Answer>) => Promise<Answer>

/** The steps on a line for an engine that keeps rows. A rule is made anew for every try. */
export function ruledLocks(run: RunRule): RuledLocks {
  return {
    acquire: (key, ask, times) => run(key, () => acquire(ask, times)),
    release: (key, who, end, times) => run(key, () => release(who, end, times)),
    renew: (key, who, terms, times) => run(key, () => renew(who, terms, times)),
    shorten: (key, who, toMs, times) => run(key, () => shorten(who, toMs, times)),
    leave: (key, who: Requester, times) => run(key, () => leave(who, times)),
    evict: (key, who: Requester, times) => run(key, () => evict(who, times)),
    keep: (key, who, options, times) => run(key, () => keep(who, options, times)),
  }
}
