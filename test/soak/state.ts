/**
 * Where a soak is, so that `--resume` can go on with it after an interruption. Kept in .signalbox/, which git
 * ignores, and gone once the soak has run to its end.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { SoakRequest } from './command.ts'

export interface SoakState extends SoakRequest {
  readonly finished: readonly string[]
}

/** The campaigns a soak has still to run, in order. */
export function remaining({ campaigns, finished }: SoakState): string[] {
  return campaigns.filter((name) => !finished.includes(name))
}

export function writeState(path: string, state: SoakState): void {
  mkdirSync(dirname(path), { recursive: true })
  // Written aside and renamed: after an interruption there is the old state or the new one, never half of it.
  writeFileSync(`${path}.new`, JSON.stringify(state))
  renameSync(`${path}.new`, path)
}

/** The state of the last soak, or undefined when there is none to go on with. */
export function findState(path: string): SoakState | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as SoakState
  } catch {
    return undefined
  }
}

export function removeState(path: string): void {
  rmSync(path, { force: true })
}
