import type { Duration } from '../core/duration.ts'
import { createFakeClock, type FakeClock } from '../core/fake-clock.ts'
import { duration } from '../core/options.ts'

/** The clock of a test box: it stands still until it is moved, and takes spans as all of Signalbox does. */
export interface TestClock extends Omit<FakeClock, 'advance'> {
  /** Moves the time on: milliseconds, or text like '30s', '5m', '24h'. Time-outs on the way fire, each at its moment. */
  advance(span: Duration): void
}

/** Makes a clock that reads `at`, in epoch milliseconds. */
export function createTestClock(at: number): TestClock {
  const fake = createFakeClock(at)
  return Object.create(fake, {
    advance: { value: (span: Duration) => fake.advance(duration('advance', span)) },
  }) as TestClock
}
