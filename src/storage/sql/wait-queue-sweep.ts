import type { LockKey } from '../../locks/index.ts'
import {
  expire,
  type LineTimes,
  type Requester,
  type Ruled,
  runLater,
  sweep,
  type Told,
} from '../../locks/rules/index.ts'
import type { RunRule } from '../ruled-locks.ts'
import type { LineBook } from './wait-queue-book.ts'

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
  sweepOne: (line: DueLine) => Promise<readonly SweptLine[]>,
  forget: () => Promise<void>,
): Promise<readonly SweptLine[]> {
  const swept: SweptLine[] = []
  const rest = [...due]
  let failure: { readonly error: unknown } | undefined
  const take = async () => {
    for (let line = rest.shift(); line !== undefined && !failure; line = rest.shift()) {
      swept.push(...(await sweepOne(line)))
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
  key: LockKey,
  book: LineBook,
  waiters: readonly Requester[],
  times: LineTimes,
): Promise<readonly SweptLine[]> {
  const changes: SweptLine[] = []
  if (book.isDue) changes.push(...tellings(key, await runLater(sweep(times), book)))
  for (const who of waiters) changes.push(...tellings(key, await runLater(expire(who, times), book)))
  return changes
}

/**
 * The same for a line whose operation excludes others: each step is taken as any other is, on all of their lines, and
 * judged anew there.
 */
export async function sweepGroup(
  key: LockKey,
  group: readonly string[],
  waiters: readonly Requester[],
  times: LineTimes,
  run: RunRule,
): Promise<readonly SweptLine[]> {
  const steps = [
    run(key, () => sweep(times), group),
    ...waiters.map((who) => run(key, () => expire(who, times), group)),
  ]
  return (await Promise.all(steps)).flatMap((ruled) => tellings(key, ruled))
}

/** What a step changed, in its line and in those that its operation excludes. */
export function tellings(
  { operation, resource }: LockKey,
  { told, elsewhere = [] }: Ruled<object>,
): readonly SweptLine[] {
  const all = [{ operation, told }, ...elsewhere]
  return all.flatMap((one) =>
    one.told.changed ? [{ key: { operation: one.operation, resource }, told: one.told }] : [],
  )
}
