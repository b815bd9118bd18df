/** What tests of code that uses Signalbox need: time that moves by hand. */
export { createFakeClock, type FakeClock } from '../core/fakeclock.ts'
