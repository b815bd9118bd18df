/** For tests of code that uses Signalbox: a box with a clock that the test moves, and jobs that run on command. */
export { createFakeClock, type FakeClock } from '../core/fake-clock.ts'
export {
  type AddedOptions,
  assertAdded,
  assertCompleted,
  assertDead,
  assertNotAdded,
  type HasJobs,
  type PartOf,
} from './assertions.ts'
export type { Drained, DrainedError, DrainOptions } from './drain.ts'
export {
  createTestClock,
  openTestBox,
  type TestBox,
  type TestBoxOptions,
  type TestClock,
} from './test-box.ts'
