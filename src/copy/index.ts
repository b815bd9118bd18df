/** Copies everything in a SQL store to another engine, and proves the result (`signalbox copy`). */
export { type CopyReport, compare, copy, type TableProof } from './copy.ts'
export { type CopyPlan, planCopy } from './copy-ends.ts'
export { type CopyNews, type CopyOptions, copyDefaults } from './copy-progress.ts'
