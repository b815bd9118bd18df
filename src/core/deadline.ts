import { type Clock, systemClock } from './clock.ts'

/** What `work` comes to. If that takes longer than `ms`: what `late` answers or throws, and the work's own end is ignored. */
export async function within<Value, Late = never>(
  ms: number,
  work: Value | PromiseLike<Value>,
  late: () => Late,
  clock: Clock = systemClock,
): Promise<Value | Late> {
  const over = Promise.withResolvers<void>()
  const timer = clock.setTimeout(over.resolve, ms)
  try {
    return await Promise.race([work, over.promise.then(late)])
  } finally {
    clock.clearTimeout(timer)
  }
}
