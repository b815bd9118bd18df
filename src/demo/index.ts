/** A small fleet that keeps every module of a server busy: for a first look, and for tests of the whole. */
export { type Demo, type DemoOptions, startDemo } from './demo.ts'
