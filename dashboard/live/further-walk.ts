import type { JobsClient, WireJob } from '../../src/http/client/index.ts'

/**
 * Finds rare jobs among very many, one short response at a time. The server searches for a tenth of a second, reports how
 * far it came, and continues on request. The walk continues until the page is full, no jobs are left, or a bound is
 * reached; then the user may continue.
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

/** How far a search goes on without a press of the user. */
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
 * Merges the polled first page with the jobs found beyond it. Where they overlap, the new page wins: a job that it does
 * not contain, and that is newer than its last job, no longer matches.
 */
export function joined(first: readonly WireJob[], known: readonly WireJob[]): readonly WireJob[] {
  const last = first.at(-1)
  return last === undefined ? known : [...first, ...known.filter(({ id }) => id < last.id)]
}
