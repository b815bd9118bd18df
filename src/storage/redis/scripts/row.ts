/**
 * How a wait queue's row is packed: d is a number, s is text. A plain row is that of a wait queue of which nothing is kept beside it,
 * and so nobody waits; it is short because to pack and unpack is much of what a step costs. Which of the two it is, its
 * first byte says.
 */
export const plainTag = 1
export const plainFormat: string = `<B${'d'.repeat(14)}sss`

export const wholeTag = 2
export const wholeRowFormat: string = `<B${'d'.repeat(26)}ssss`
