import type { Goal } from '../../goal.ts'

/** Its issue names no bar for this figure, only that it be seen. */
export const printed: Goal = { text: 'printed', holds: () => true }
