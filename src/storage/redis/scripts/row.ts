/**
 * How a wait queue's row is packed: d is a number, s is text. A plain row belongs to a wait queue that has only its row,
 * and therefore no waiter. It is short, because packing and unpacking is much of a step's cost. The first byte tells the
 * two forms apart.
 */
export const plainTag = 1
export const plainFormat: string = `<B${'d'.repeat(14)}sss`

export const wholeTag = 2
export const wholeRowFormat: string = `<B${'d'.repeat(26)}ssss`
