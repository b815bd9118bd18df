/** From one engine to another: `signalbox copy` carries everything that is kept in SQL, and proves it. */
export { type CopyReport, compare, copy } from './copy.ts'
export type { CopyNews } from './news.ts'
export { type CopyOptions, copyDefaults } from './options.ts'
export { type CopyPlan, planCopy } from './plan.ts'
export type { TableProof } from './proof.ts'
