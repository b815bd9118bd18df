/** Copies, against the same rows put into the same table by the bare driver, from memory. */
import type { BenchModule } from '../../case.ts'
import { toPostgresTrial } from './to-postgres.ts'

export const copyModule: BenchModule = { name: 'copy', trials: [toPostgresTrial] }
