import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Repeats one action until it is stopped. Errors are part of the demo: they are counted, and the next turn follows.
 */
export interface Stage {
  readonly signal: AbortSignal
  /** Something went wrong that was not meant to. */
  fault(who: string, error: unknown): void
}

/** Acts until the signal aborts; between two turns passes a time between the two. Never rejects. */
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

/** A failure that the play asks for. */
export class Mishap extends Error {
  override readonly name = 'Mishap'
}

/** Rejects when the signal aborts. */
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
