/** Copies, against the same rows put into the same table by the bare driver, from memory. */
import type { Room } from '../../case.ts'
import { toPostgresTrial } from './to-postgres.ts'

export const copyRoom: Room = { name: 'copy', trials: [toPostgresTrial] }
