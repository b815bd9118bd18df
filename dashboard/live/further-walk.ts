import type { JobsClient, WireJob } from '../../src/http/client/index.ts'

/**
 * What is rare among very many jobs is found a short answer at a time: the server looks for a tenth of a second, says how
 * far it came, and goes on when it is asked to. This asks it to, until the page is full, the jobs are at their end, or
 * a bound is reached; then it is the reader who may want more.
 */
export type JobsPage = Awaited<ReturnType<JobsClient['list']>>
export type JobsQuestion = NonNullable<Parameters<JobsClient['list']>[0]>

/** What was found beyond the first answer, and how far it was looked. */
export interface Walked {
  readonly items: readonly WireJob[]
  /** Where it goes on; null: the jobs are at their end. */
  readonly cursor: string | null
  /** How many jobs were looked at, with those of the first answer. */
  readonly scanned: number
  /** False: a bound was reached, or the page is full. */
  readonly isLooking: boolean
}

/** How far it is looked without anybody saying so. */
export const furtherLimits: { readonly pages: number; readonly ms: number } = { pages: 20, ms: 5_000 }

/** Whether more may be found where this answer ended: it looked for as long as it may, and the page has room. */
export function mayHaveMore({ items, cursor, stopped = null }: JobsPage, pageSize: number): boolean {
  return stopped !== null && cursor !== null && items.length < pageSize
}

/** Looks further from there. `tell` hears of each answer; the last one that it hears is no longer looking. */
export async function walkFurther(
  from: Walked,
  room: number,
  ask: (cursor: string, limit: number) => Promise<JobsPage>,
  tell: (walked: Walked) => void,
  signal: AbortSignal,
): Promise<void> {
  const until = performance.now() + furtherLimits.ms
  let walked: Walked = { ...from, isLooking: true }
  tell(walked)
  for (let pages = 0; walked.isLooking; ) {
    const limit = room - walked.items.length
    const page = await ask(walked.cursor!, limit)
    if (signal.aborted) return
    pages++
    walked = {
      items: [...walked.items, ...page.items],
      cursor: page.cursor,
      scanned: walked.scanned + (page.scanned ?? page.items.length),
      isLooking: mayHaveMore(page, limit) && pages < furtherLimits.pages && performance.now() < until,
    }
    tell(walked)
  }
}

/**
 * The first answer, which is asked for again and again, with what was known beyond it. Of what both speak of, the new
 * answer knows better: a job that it does not name, and that is newer than its last one, is no longer meant.
 */
export function joined(first: readonly WireJob[], known: readonly WireJob[]): readonly WireJob[] {
  const last = first.at(-1)
  return last === undefined ? known : [...first, ...known.filter(({ id }) => id < last.id)]
}
