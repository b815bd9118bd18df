/** Where streams of events come from. */
export { createHintsFeed } from './hintsfeed.ts'
export { createQueuesFeed } from './queuesfeed.ts'
