/** A small fleet that makes every room of a server busy: for a first look, and for tests of the whole. */
export { type Demo, type DemoOptions, startDemo } from './demo.ts'
