import { createStored, type Stored, useStored } from '../shell/stored.ts'
import type { Loss } from './loss.ts'

/** Whether the server answers, as far as the last request or the stream can tell, and whether the reader wants news. */
export interface Liveness {
  /** Since when the server has not answered; null: it does. */
  readonly lostAt: number | null
  /** What the newest failure was. */
  readonly loss: Loss
  /** How often it answered again after it had not. */
  readonly timesBack: number
  /** The reader wants the page to stand still. */
  readonly paused: boolean
}

export const liveness: Stored<Liveness> = createStored<Liveness>({
  lostAt: null,
  loss: 'server_unreachable',
  timesBack: 0,
  paused: false,
})

export function useLiveness(): Liveness {
  return useStored(liveness)
}

export function pauseLive(paused: boolean): void {
  liveness.set({ ...liveness.get(), paused })
}

export function connectionLost(loss: Loss): void {
  const now = liveness.get()
  if (now.lostAt === null || now.loss !== loss)
    liveness.set({ ...now, lostAt: now.lostAt ?? Date.now(), loss })
}

/** Answers whether it had been lost. */
export function connectionBack(): boolean {
  const now = liveness.get()
  const wasLost = now.lostAt !== null
  if (wasLost) liveness.set({ ...now, lostAt: null, timesBack: now.timesBack + 1 })
  return wasLost
}
