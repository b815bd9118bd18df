import { expire, type LineTimes, type Requester, runLater, sweep, type Told } from '../lines/index.ts'
import type { LockKey } from '../locks/index.ts'
import type { LineBook } from './linebook.ts'

/** A line whose time has come, or the time of some who wait in it. */
export interface DueLine extends LockKey {
  /** Where they stand. */
  readonly seqs: readonly number[]
}

/** What sweeping a line came to, for whoever it concerns. */
export interface SweptLine {
  readonly key: LockKey
  readonly told: Told
}

/** How many lines are swept side by side; each is a transaction of its own. */
const sweptTogether = 4

/**
 * Sweeps lines that are due, and then `forget`s what is over. What some of it did is told also when the rest failed: the
 * next sweep meets the same trouble again.
 */
export async function sweepLines(
  due: readonly DueLine[],
  sweepOne: (line: DueLine) => Promise<readonly Told[]>,
  forget: () => Promise<void>,
): Promise<readonly SweptLine[]> {
  const swept: SweptLine[] = []
  const rest = [...due]
  let failure: { readonly error: unknown } | undefined
  const take = async () => {
    for (let line = rest.shift(); line !== undefined && !failure; line = rest.shift()) {
      const key = { operation: line.operation, resource: line.resource }
      for (const told of await sweepOne(line)) swept.push({ key, told })
    }
  }
  const attempt = (work: () => Promise<void>) =>
    work().catch((error: unknown) => {
      failure ??= { error }
    })
  await Promise.all(Array.from({ length: sweptTogether }, () => attempt(take)))
  if (!failure) await attempt(forget)
  if (failure && swept.length === 0) throw failure.error
  return swept
}

/** Brings a locked line to the present, and ends the waits of those among these whose time has come. */
export async function sweepBook(
  book: LineBook,
  waiters: readonly Requester[],
  times: LineTimes,
): Promise<readonly Told[]> {
  const changes: Told[] = []
  const note = ({ told }: { readonly told: Told }) => {
    if (told.changed) changes.push(told)
  }
  if (book.isDue) note(await runLater(sweep(times), book))
  for (const who of waiters) note(await runLater(expire(who, times), book))
  return changes
}
