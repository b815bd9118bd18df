import type { Goal } from '../../goal.ts'

/** There is no bar for this figure; it is there to be seen. */
export const printed: Goal = { text: 'printed', holds: () => true }
