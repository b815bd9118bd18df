import { setTimeout as sleep } from 'node:timers/promises'

/**
 * The stage of the demo. Actors repeat their actions until the signal aborts. Errors are counted and do not stop an
 * actor.
 */
export interface Stage {
  readonly signal: AbortSignal
  /** Reports an unexpected error. */
  fault(who: string, error: unknown): void
}

/** Repeats a turn until the signal aborts, with a random pause between the two times. Never rejects. */
export async function act(
  { signal, fault }: Stage,
  who: string,
  [fromMs, toMs]: readonly [number, number],
  turn: () => Promise<unknown> | unknown,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await turn()
    } catch (error) {
      if (!signal.aborted && !(error instanceof Mishap)) fault(who, error)
    }
    await rest(signal, between(fromMs, toMs))
  }
}

/** A failure that is part of the demo. */
export class Mishap extends Error {
  override readonly name = 'Mishap'
}

/** Waits for a random time. Rejects when the signal aborts. */
export async function pass(signal: AbortSignal, fromMs: number, toMs: number): Promise<void> {
  await sleep(between(fromMs, toMs), undefined, { signal })
}

async function rest(signal: AbortSignal, ms: number): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined)
}

export function between(low: number, high: number): number {
  return low + Math.random() * (high - low)
}

export function chance(share: number): boolean {
  return Math.random() < share
}

export function pick<One>(list: readonly One[]): One {
  return list[Math.floor(Math.random() * list.length)]!
}
