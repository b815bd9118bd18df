import { setTimeout as sleep } from 'node:timers/promises'
import type { Box } from '../../index.ts'
import { type LocksOptions, resolveLocksOptions } from '../../locks/index.ts'
import { type Bench, type BenchLine, lineOf, repeat } from './measure.ts'
import type { Raw } from './raw.ts'

const operation = 'bench'

/** How a line ended is of no interest to anybody here, so nothing of it is kept for long. */
export const benchLocksOptions: LocksOptions = { keepMs: 100 }

/** Locks: one that nobody else wants, many resources at once, and one that ten stand in line for. */
export async function benchLocks(
  bench: Bench,
  box: Box,
  raw: Raw | undefined,
): Promise<readonly BenchLine[]> {
  const turn = async (resource: string, node: string) => {
    const asked = { operation, resource, node }
    const answer = await box.locks.acquire({ ...asked, want: 'turn' })
    if (answer.status !== 'granted') throw new Error(`The lock was ${answer.status}.`)
    await box.locks.release({ ...asked, token: answer.token, outcome: 'success' })
  }
  const one = await repeat(bench, { name: 'acquire and release' }, () => turn('one', 'a'))
  const free = Array.from({ length: 50 }, (_, at) => `of-${at}`)
  const fifty = await repeat(bench, { name: 'acquire and release, 50 at once', width: 50 }, async () => {
    const resource = free.pop()!
    await turn(resource, 'a')
    free.push(resource)
  })
  const line = await repeat(bench, { name: 'hand-over', width: 10 }, async () => {
    await using held = await box.locks.hold(operation, 'line', { node: 'a', signal: bench.signal })
    void held
  })
  // Two commits a turn.
  const commits = raw && raw.commitsPerSecond / 2
  return [
    lineOf('acquire and release', 'turns of a lock that nobody else wants', one, commits),
    lineOf('acquire and release, 50 at once', 'turns, each of a lock of its own', fifty),
    lineOf('hand-over', 'turns of one lock that ten stand in line for', line),
  ]
}

/** Forgets the lines that nobody stands in any more. */
export async function forgetLocks(box: Box): Promise<void> {
  await sleep(150)
  const times = resolveLocksOptions(benchLocksOptions)
  while ((await box.backend.locks.sweep(500, times)).length > 0);
}
