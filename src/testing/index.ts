/** What tests of code that uses Signalbox need: a box whose time moves by hand and whose jobs run on command. */
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
export { openTestBox, type TestBox, type TestBoxOptions } from './test-box.ts'
export { createTestClock, type TestClock } from './test-clock.ts'
