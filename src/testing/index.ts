/** What tests of code that uses Signalbox need: a box whose time moves by hand and whose jobs run when told to. */
export { createFakeClock, type FakeClock } from '../core/fakeclock.ts'
export {
  type AddedOptions,
  assertAdded,
  assertCompleted,
  assertDead,
  assertNotAdded,
  type HasJobs,
  type PartOf,
} from './assertions.ts'
export { createTestClock, type TestClock } from './clock.ts'
export type { Drained, DrainedError, DrainOptions } from './drain.ts'
export { openTestBox, type TestBox, type TestBoxOptions } from './testbox.ts'
