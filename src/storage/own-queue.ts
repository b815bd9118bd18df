/**
 * Signalbox's own queues (tasks, bulk operations) are few jobs among very many, and looked at all the time. Engines that
 * have partial indexes keep one of these queues alone, which no other job pays for.
 */
const first = 'signalbox.'
/** The next text after all that begin so. */
const end = 'signalbox/'

export function isOwnQueue(queue: string): boolean {
  return queue.startsWith(first)
}

/** The condition of those indexes, word for word as a planner must find it in a statement that is to use one. */
export function isOwn(column: string): string {
  return `${column} >= '${first}' AND ${column} < '${end}'`
}
