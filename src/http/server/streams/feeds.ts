/** Where streams of events come from. */
export { createHintsFeed } from './hints-feed.ts'
export { createQueuesFeed } from './queues-feed.ts'
