/** From one engine to another: `signalbox copy` carries everything that is kept in SQL, and proves it. */
export { type CopyReport, compare, copy } from './copy.ts'
export { type CopyOptions, copyDefaults } from './copy-options.ts'
export { type CopyPlan, planCopy } from './copy-plan.ts'
export type { CopyNews } from './copy-progress.ts'
export type { TableProof } from './table-proof.ts'
