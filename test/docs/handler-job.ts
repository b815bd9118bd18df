/** A job in its handler's hands, for fragments that are the inside of a handler. */
import type { Box } from 'signalbox'
import type { HandlerJob } from 'signalbox/jobs'

const held: (() => void)[] = []

/** Lets go of what `inHand` gave: before its box is closed, which would wait for the handlers. */
export function letGo(): void {
  for (const end of held.splice(0)) end()
}

/** Adds a job and returns it as its handler sees it; the handler returns when the test releases it. */
export async function inHand(
  box: Box,
  kind = 'charge',
  payload: unknown = { orderId: 7 },
): Promise<HandlerJob> {
  const queue = `in hand ${kind}`
  const { promise, resolve } = Promise.withResolvers<HandlerJob>()
  const worker = box.jobs.worker({
    queues: [queue],
    handlers: {
      [kind]: async (job) => {
        resolve(job)
        await new Promise<void>((over) => held.push(over))
      },
    },
  })
  await worker.start()
  await box.jobs.add(kind, payload, { queue })
  return promise
}

/** Waits until a look says yes. The block's own deadline ends it when that never comes. */
export async function until(look: () => unknown): Promise<void> {
  while (!(await look())) await new Promise((resolve) => setTimeout(resolve, 10))
}

/** Starts a worker and waits until this many of its jobs have completed; throws when one fails. */
export async function complete(worker: ReturnType<Box['jobs']['worker']>, count: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let left = count
  worker.on('completed', () => --left === 0 && resolve())
  worker.on('failed', ({ error }) => reject(error))
  await worker.start()
  await promise
}
