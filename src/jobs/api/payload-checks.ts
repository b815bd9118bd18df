import type { NewJob } from '../job-store.ts'
import type { PayloadCheck } from './add-options.ts'

/** So many schemas that answer later are asked at once. */
const checksAtOnce = 100

/** Asks the schemas of those that have one, before anything is written. */
export async function checkPayloads(
  checks: readonly (PayloadCheck | undefined)[],
  records: readonly NewJob[],
): Promise<void> {
  let waiting: Promise<unknown>[] = []
  for (const [index, check] of checks.entries()) {
    const checked = check?.(`addMany[${index}]`, records[index]!.payload)
    if (checked === undefined) continue
    // One that is not waited for any more, because another was refused first, is nobody's unhandled rejection.
    checked.catch(() => undefined)
    if (waiting.push(checked) < checksAtOnce) continue
    await Promise.all(waiting)
    waiting = []
  }
  await Promise.all(waiting)
}
