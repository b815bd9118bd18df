/**
 * fastq's callback form, as in its documentation: a worker that answers by a callback, and one callback per push, because
 * that is how a producer learns which item is done. The worker must answer later than it is called: if it answers at
 * once, fastq starts the next task from within, and ten thousand queued ones overflow the stack.
 *
 * What "later" is decides most of the rate, so several are measured and all are printed. The goals are held against
 * the forms that most often stand for fastq: `nextTick` for a stream (3.4 to 3.7 M/s, 240 bytes an item), and
 * `setImmediate`, the turn of the event loop that any worker with I/O needs, for a million queued (0.37 M/s). A
 * microtask is the cheapest there is.
 */
import type { queue } from 'fastq'

export type Later = 'nextTick' | 'microtask' | 'setImmediate'

const later: Record<Later, (callback: () => void) => void> = {
  nextTick: (callback) => process.nextTick(callback),
  microtask: (callback) => queueMicrotask(callback),
  setImmediate: (callback) => void setImmediate(callback),
}

/** A fastq with one worker, and a push that hears of its item's end. */
export interface CallbackQueue {
  readonly queue: queue<string>
  push(name: string): void
  /** How many items came to their end. */
  readonly handled: number
}

export async function openFastq(answer: Later): Promise<CallbackQueue> {
  const { default: fastq } = await import('fastq')
  const answerLater = later[answer]
  let handled = 0
  const queue = fastq<unknown, string>((_name, callback) => answerLater(callback as () => void), 1)
  return {
    queue,
    push(name) {
      queue.push(name, () => {
        handled++
      })
    },
    get handled() {
      return handled
    },
  }
}
