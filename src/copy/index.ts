/** From one engine to another: `signalbox copy` carries everything that is kept in SQL, and proves it. */

export type { TableProof } from './copy.ts'
export { type CopyReport, compare, copy } from './copy.ts'
export { type CopyPlan, planCopy } from './copy-ends.ts'
export type { CopyNews } from './copy-progress.ts'
export { type CopyOptions, copyDefaults } from './copy-progress.ts'
