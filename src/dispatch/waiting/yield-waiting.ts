/** Waiting tasks are given up to other servers, the last of the wait queue first, so many per turn. */

import type { Asked, Demand } from '../matching/demand.ts'
import { drop } from '../registry/ending.ts'
import type { RegistryState } from '../registry/registry-state.ts'
import type { WaitEntry } from './wait-queue.ts'

/** What waits with one `TaskSpec.kind`. */
export interface WaitingKind {
  readonly kind: string
  readonly waiting: number
  /** An own node could take one now, or it is not known yet whether one could. */
  readonly hasCapacity: boolean
  /** What they ask for, all the same. */
  readonly asked: Asked
}

/** Begins to give up tasks; what was asked for before, and is not done, is replaced. */
export function yieldWaiting(state: RegistryState, kind: string, count: number): void {
  if (count > 0) state.yields.set(kind, count)
  else state.yields.delete(kind)
  continueYields(state, state.policy.sliceSteps)
}

/** Goes on giving up, for so many steps; answers how many are left. */
export function continueYields(state: RegistryState, steps: number): number {
  let left = steps
  for (const [kind, count] of state.yields) {
    let wanted = count
    while (wanted > 0 && left > 0) {
      const entry = lastOf(state, kind)
      if (entry === null) break
      const { taskId, attempt } = entry.task.spec
      drop(state, entry.task)
      state.emit({ kind: 'handBack', taskId, attempt })
      wanted -= 1
      left -= 1
      state.work.done += 1
    }
    if (left > 0 || wanted === 0) state.yields.delete(kind)
    else state.yields.set(kind, wanted)
    if (left === 0) break
  }
  return left
}

/** Of all wait queues of a kind, who would be served last. */
function lastOf({ waitingKinds, now, policy }: RegistryState, kind: string): WaitEntry | null {
  let last: WaitEntry | null = null
  let looks = policy.maxPoolsScanned
  for (const { waitQueue } of waitingKinds.get(kind) ?? noDemands) {
    const entry = waitQueue.peekLast(now, policy.ageMs)
    if (entry !== null && (last === null || after(entry, last))) last = entry
    looks -= 1
    if (looks === 0) break
  }
  return last
}

const noDemands: ReadonlySet<Demand> = new Set()

function after(a: WaitEntry, b: WaitEntry): boolean {
  return a.level === b.level ? a.levelSince > b.levelSince : a.level < b.level
}

/** What waits, by kind. */
export function* waitingByKind({ waitingKinds, generation }: RegistryState): Generator<WaitingKind> {
  for (const [kind, demands] of waitingKinds) {
    let waiting = 0
    let hasCapacity = false
    let asked: Asked | undefined
    for (const demand of demands) {
      waiting += demand.waitQueue.size
      hasCapacity ||= generation.mayHaveCapacity(demand)
      asked ??= demand.asked
    }
    if (asked !== undefined) yield { kind, waiting, hasCapacity, asked }
  }
}

/** What the tasks in the registry ask for, running ones too; a kind may come more than once. */
export function* askedByKind({ demands }: RegistryState): Generator<Asked & { readonly kind: string }> {
  for (const { kind, asked, taskCount } of demands.values()) if (taskCount > 0) yield { kind, ...asked }
}
