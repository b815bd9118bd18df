import type { LockKey, LockStore, WaitQueueSummary, WaitQueueView } from '../../locks/index.ts'
import { groupOf, type LockTimes, type Notified } from '../../locks/rules/index.ts'
import { changesOf } from '../ruled-locks.ts'
import type { ScriptRunner } from './connection.ts'
import { encodeRequester, Keyring } from './keys.ts'
import { findDue, findWaitingHolders, pagesOfBusy } from './looks.ts'
import type { Recovery } from './recovery.ts'
import { decodeQueue, decodeReleased, decodeRuled, decodeStanding, isBusy } from './replies.ts'
import { anyTimes, type StepGroup, type StepName, type Stepper, type StepReply } from './stepper.ts'

/** The shared parts of wait queues in Redis, for all namespaces. */
export interface RedisLockParts {
  readonly connection: ScriptRunner
  readonly stepper: Stepper
  readonly recovery: Recovery
}

/** The wait queues of one namespace. scripts/steps.ts has the steps; this file arranges their arguments. */
export function createRedisLocks(parts: RedisLockParts, namespace: string): LockStore {
  const { stepper, recovery } = parts
  const keyring = new Keyring(namespace)
  let firstShard = 0

  function step(key: LockKey, name: StepName, args: readonly string[], times: LockTimes): Promise<StepReply> {
    return stepper.step(keyring.locate(key), name, args, times, groupFor(key, times))
  }

  /** The other wait queues that a step must read; nearly always none. */
  function groupFor({ operation, resource }: LockKey, { conflicts }: LockTimes): StepGroup | undefined {
    const group = groupOf(conflicts, operation)
    if (conflicts === undefined || group === undefined) return undefined
    const others = group.filter((other) => other !== operation)
    const numbers = new Map([operation, ...others].map((one, index) => [one, index + 1]))
    const pairs = conflicts.flatMap(([one, other]) =>
      numbers.has(one) ? [`${numbers.get(one)}-${numbers.get(other)}`] : [],
    )
    return {
      others: others.map((other) => keyring.locate({ operation: other, resource })),
      pairs: pairs.join(','),
    }
  }

  function look(key: LockKey, limit: number): Promise<StepReply> {
    return step(key, 'inspect', [`${limit}`], anyTimes)
  }

  return {
    async acquire(key, ask, times) {
      const { wait, want, ttlMs, deadlineMs, isStreamed } = ask
      recovery.recordTtl(ttlMs)
      const terms = bit(wait) + bit(want === 'turn') + bit(isStreamed) + (deadlineMs ?? '')
      const reply = await step(key, 'acquire', [encodeRequester(ask), `${ttlMs}`, terms], times)
      return decodeRuled(reply, { standing: decodeStanding(reply[4])! })
    },

    async release(key, who, { outcome, value, terminal }, times) {
      const ending = (outcome === 'success' ? 's' : 'f') + bit(terminal) + bit(value !== null) + (value ?? '')
      const reply = await step(key, 'release', [encodeRequester(who), `${who.token}`, ending], times)
      return decodeRuled(reply, decodeReleased(reply[4]))
    },

    async renew(key, who, { ttlMs, progress }, times) {
      if (ttlMs !== undefined) recovery.recordTtl(ttlMs)
      const kind = progress === undefined ? '' : progress === null ? 'none' : 'text'
      const args = [encodeRequester(who), `${who.token}`, `${ttlMs ?? ''}`, kind, progress ?? '']
      const reply = await step(key, 'renew', args, times)
      const [status, expiresAt] = reply[4] as readonly [string, number]
      return decodeRuled(reply, { expiresAt: status === 'renewed' ? expiresAt : undefined })
    },

    async shorten(key, who, toMs, times) {
      const reply = await step(key, 'shorten', [encodeRequester(who), `${who.token}`, `${toMs}`], times)
      return decodeRuled(reply, { shortened: reply[4][0] === 'shortened' })
    },

    async leave(key, who, times) {
      const reply = await step(key, 'leave', [encodeRequester(who)], times)
      const [left] = reply[4]
      return decodeRuled(reply, { left: left === 'holding' ? left : left === 'left' })
    },

    async evict(key, who, times) {
      const reply = await step(key, 'evict', [encodeRequester(who)], times)
      return decodeRuled(reply, { evicted: reply[4][0] === 'evicted' })
    },

    async keep(key, who, { isStreamed }, times) {
      const reply = await step(key, 'keep', [encodeRequester(who), bit(isStreamed)], times)
      return decodeRuled(reply, { standing: decodeStanding(reply[4]) })
    },

    async fail(key, who, value, times) {
      const reply = await step(key, 'fail', [encodeRequester(who), `${who.seq}`, value], times)
      return decodeRuled(reply, { failed: reply[4][0] === 'failed' })
    },

    findWaitingHolders: (keys) => findWaitingHolders(parts, keyring, keys),

    async inspect(key, limit) {
      return decodeQueue(key, await look(key, limit), limit)
    },

    async list(query) {
      const queues: WaitQueueSummary[] = []
      for await (const page of pagesOfBusy(parts, keyring, query)) {
        const replies = await Promise.all(page.map((key) => look(key, 0)))
        for (const [index, reply] of replies.entries()) {
          // It may have ended since its name was read.
          if (isBusy(reply)) queues.push(summaryOf(decodeQueue(page[index]!, reply, 0)!))
          if (queues.length === query.limit) return queues
        }
      }
      return queues
    },

    async sweep(limit, times) {
      const swept: { key: LockKey; notified: Notified }[] = []
      for (let round = 0; round < sweepRounds; round++) {
        const wanted = limit - swept.length
        const entries = await findDue(parts, keyring, wanted, firstShard++)
        const replies = await Promise.all(
          entries.map(({ key, who }) =>
            who ? step(key, 'expire', [encodeRequester(who)], times) : step(key, 'sweep', [], times),
          ),
        )
        for (const [index, reply] of replies.entries()) {
          swept.push(...changesOf(entries[index]!.key, decodeRuled(reply, {})))
        }
        if (entries.length < wanted || swept.length >= limit) break
      }
      return swept
    },
  }
}

/**
 * Each listed wait queue without due entries costs one read. Such wait queues must not hold up those with due entries.
 */
const sweepRounds = 20

function bit(value: boolean): '0' | '1' {
  return value ? '1' : '0'
}

function summaryOf({ operation, resource, holder, waiterCount }: WaitQueueView): WaitQueueSummary {
  return { operation, resource, holder, waiterCount }
}
