import type { Mutation } from './mutate.ts'

/**
 * Ways to break the work queue, each against a sentence of its contract. When a line is rewritten, its mutation is
 * rewritten with it: the campaign fails on one that no longer fits.
 */
export const workqueueMutations: readonly Mutation[] = [
  {
    file: 'src/workqueue/turn.ts',
    find: 'if (this.inHand) this.#owner.end(this)',
    replace: 'this.#owner.end(this)',
    breaks: 'disposing of a Work ends that turn only, and may be repeated',
  },
  {
    file: 'src/workqueue/workqueue.ts',
    find: 'if (turn === undefined || !turn.inHand) return false',
    replace: 'if (turn === undefined) return false',
    breaks: 'done of an item that is not in hand has no effect',
  },
  {
    file: 'src/workqueue/workqueue.ts',
    find: 'turn.inHand = true',
    replace: 'turn.inHand = false',
    breaks: 'an item is in one hand at a time',
  },
  {
    file: 'src/workqueue/workqueue.ts',
    find: 'if (priority > previousPriority) turn.priority = priority',
    replace: 'turn.priority = priority',
    breaks: 'of several adds the highest priority wins',
  },
  {
    file: 'src/workqueue/workqueue.ts',
    find: 'if (priority > again.priority) again.priority = priority',
    replace: '',
    breaks: 'an item added again while in hand takes the highest priority',
  },
  {
    file: 'src/workqueue/workqueue.ts',
    find: 'again.item = item',
    replace: '',
    breaks: 'the newest object is handed out',
  },
  {
    file: 'src/workqueue/workqueue.ts',
    find: 'if (again !== undefined && !this.#getters.empty) this.#serveGetters()',
    replace: '',
    breaks: 'an item added again goes to a blocked getter when it is done',
  },
  {
    file: 'src/workqueue/workqueue.ts',
    find: 'while (!this.#getters.empty) this.#getters.serve(noWork)',
    replace: 'if (!this.#getters.empty) this.#getters.serve(noWork)',
    breaks: 'shutDown releases every blocked getter',
  },
  {
    file: 'src/workqueue/workqueue.ts',
    find: 'return this.#processing === 0 && this.#store.size === 0',
    replace: 'return this.#processing === 0',
    breaks: 'a drain waits for what is queued, not only for what is in hand',
  },
  {
    file: 'src/workqueue/workqueue.ts',
    find: 'depth: this.size + this.#again.size,',
    replace: 'depth: this.size,',
    breaks: 'depth counts items added again while in hand',
  },
  {
    file: 'src/workqueue/waits.ts',
    find: "signal.removeEventListener('abort', onAbort)",
    replace: '',
    breaks: 'a wait that ended keeps no listener on the signal',
  },
  {
    file: 'src/workqueue/waits.ts',
    find: 'leave(wait)\n      reject',
    replace: 'reject',
    breaks: 'an aborted get takes nothing',
  },
  {
    file: 'src/workqueue/levels.ts',
    find: 'if (entry.priority === previousPriority) return',
    replace: 'if (entry.priority !== previousPriority) return',
    breaks: 'a raised item moves to the end of its new level, and no other moves',
  },
  {
    file: 'src/workqueue/stores.ts',
    find: 'if (isStale && group.places.size > 0) return entry',
    replace: 'if (group.places.size > 0) return entry',
    breaks: 'the groups of a FairQueue come in turn',
  },
  {
    file: 'src/workqueue/timerheap.ts',
    find: '(dueAt === other && order < (this.#order[place] as number))',
    replace: 'false',
    breaks: 'items due at one time enter in the order of the calls',
  },
  {
    file: 'src/workqueue/waiting.ts',
    find: 'if (replace || dueAt < this.#heap.dueAt(known)) this.#heap.move(known, dueAt)',
    replace: 'this.#heap.move(known, dueAt)',
    breaks: 'the earliest due time stands',
  },
  {
    file: 'src/workqueue/delays.ts',
    find: 'const longestTimerMs = 10_000',
    replace: 'const longestTimerMs = 10_000_000_000',
    breaks: 'a timer is set for ten seconds at most',
  },
  {
    file: 'src/workqueue/delays.ts',
    find: 'this.#waiting.clear()\n',
    replace: '\n',
    breaks: 'shutDown drops what waits and leaves no timer',
  },
  {
    file: 'src/workqueue/limiters.ts',
    find: 'if (this.#baseDelay === 0) return 0',
    replace: '',
    breaks: 'a base delay of zero stays zero after a thousand failures',
  },
  {
    file: 'src/workqueue/limiters.ts',
    find: 'const passedMs = Math.max(0, now - this.#filledAt)',
    replace: 'const passedMs = now - this.#filledAt',
    breaks: 'a clock going backwards takes nothing from the bucket',
  },
  {
    file: 'src/workqueue/consume.ts',
    find: 'await handler(work.item)',
    replace: 'void handler(work.item)',
    breaks: 'run ends the turn of each item when its handler settles',
  },
  {
    file: 'src/workqueue/limits.ts',
    find: 'if (this.numRequeues(item) < resolved.maxRetries)',
    replace: 'if (this.numRequeues(item) <= resolved.maxRetries)',
    breaks: 'run gives an item up once it was tried again maxRetries times',
  },
  {
    file: 'src/workqueue/limits.ts',
    find: 'if (this.shuttingDown) return false\n',
    replace: '\n',
    breaks: 'addRateLimited after shutdown counts nothing',
  },
  {
    file: 'src/workqueue/parallelize.ts',
    find: 'if (begunCount < pieces) throw signal?.reason',
    replace: 'if (signal?.aborted) throw signal.reason',
    breaks: 'an abort after every piece has begun rejects nothing',
  },
]
