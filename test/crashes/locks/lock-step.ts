import type { LockKey, LockStore } from '../../../src/locks/index.ts'
import type { LockTimes, Requester, Standing } from '../../../src/locks/rules/index.ts'
import type { LockAnswer, LockCall } from './lock-operation.ts'

/** Makes a call on a store; the answer is what a history has of it. */
export async function takeStep(
  store: LockStore,
  queue: string,
  call: LockCall,
  times: LockTimes,
): Promise<LockAnswer> {
  const key = keyOf(queue)
  switch (call.step) {
    case 'acquire': {
      const { step: _, who, ...ask } = call
      return answerOf((await store.acquire(key, { ...requesterOf(who), ...ask }, times)).standing)
    }
    case 'keep': {
      const { isStreamed } = call
      return answerOf((await store.keep(key, requesterOf(call.who), { isStreamed }, times)).standing)
    }
    case 'release': {
      const { outcome, value, terminal } = call
      const end = { outcome, value, terminal }
      const { released } = await store.release(key, ownerOf(call), end, times)
      return released ? { is: 'released', next: released.next && nameOf(released.next) } : no
    }
    case 'renew': {
      const terms = { ttlMs: call.ttlMs, progress: undefined }
      const { expiresAt } = await store.renew(key, ownerOf(call), terms, times)
      return expiresAt === undefined ? no : { is: 'renewed', expiresAt }
    }
    case 'shorten': {
      const { shortened } = await store.shorten(key, ownerOf(call), call.toMs, times)
      return shortened ? { is: 'shortened' } : no
    }
    case 'leave': {
      const { left } = await store.leave(key, requesterOf(call.who), times)
      return left === 'holding' ? { is: 'holding' } : left ? { is: 'left' } : no
    }
    case 'evict': {
      const { evicted } = await store.evict(key, requesterOf(call.who), times)
      return evicted ? { is: 'evicted' } : no
    }
    case 'inspect': {
      const view = await store.inspect(key, 1_000)
      const holder = view?.holder ?? null
      return {
        is: 'queue',
        holder: holder && nameOf(holder),
        attempt: holder?.attempt ?? null,
        waiters: (view?.waiters ?? []).map(nameOf),
      }
    }
  }
}

const no: LockAnswer = { is: 'no' }

function answerOf(standing: Standing | undefined): LockAnswer {
  switch (standing?.status) {
    case undefined:
      return no
    case 'granted': {
      const { token, attempt, expiresAt } = standing
      return { is: 'granted', token, attempt, expiresAt }
    }
    case 'queued':
      return { is: 'queued', position: standing.position }
    case 'refused':
      return { is: 'refused', holder: standing.holder && nameOf(standing.holder) }
    case 'ended':
      return { is: 'ended', kind: standing.kind, value: standing.value }
    case 'full':
      throw new Error(`a wait queue of ${standing.waiters} is full: histories are made where none is`)
  }
}

function keyOf(queue: string): LockKey {
  return { operation: queue, resource: 'r' }
}

function ownerOf({ who, token }: { readonly who: string; readonly token: number }) {
  return { ...requesterOf(who), token }
}

/** `c1` asks in its own name, `c1.7` is its seventh request. */
function requesterOf(who: string): Requester {
  const [node] = who.split('.')
  return { node: node!, requestId: who }
}

function nameOf({ requestId }: Requester): string {
  return requestId
}
