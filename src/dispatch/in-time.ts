import { SignalboxError } from '../core/errors.ts'

/** What the call answers, unless it takes longer: then `store_unavailable`, and its late answer is ignored. */
export async function inTime<Answer>(
  withinMs: number,
  call: () => Promise<Answer>,
  who = 'The cluster state',
): Promise<Answer> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    const message = `${who} did not answer within ${withinMs} ms.`
    reject(new SignalboxError('store_unavailable', message))
  }, withinMs)
  try {
    return await Promise.race([call(), late])
  } finally {
    clearTimeout(timer)
  }
}
