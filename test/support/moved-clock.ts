import { vi } from 'vitest'

/** Runs with a `performance.now` that moves only when the test moves it. */
export function withMovedClock(run: (advance: (ms: number) => void) => void): void {
  let now = 1_000
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now)
  try {
    run((ms) => {
      now += ms
    })
  } finally {
    clock.mockRestore()
  }
}
