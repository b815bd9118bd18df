/**
 * Faults of the machine that a process stands on: syncs that take long, a clock that is off. A small library is put in
 * front of the process's own (shim.c), compiled here; where there is no compiler, what needs it is not run, and says so.
 */
import { chmodSync, closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { binaryFolders, findBinary } from '../support/services/binary.ts'
import { createFolder } from '../support/services/folder.ts'
import { runProgram } from '../support/services/program.ts'

export interface Faults extends AsyncDisposable {
  /** What a process is started with to be subject to them. */
  readonly env: Readonly<Record<string, string>>
  /** How they are from now on; what is not named is gone. */
  set(faults: { readonly syncMs?: number; readonly clockMs?: number }): void
}

export function findCompiler(): string | undefined {
  if (process.platform !== 'linux') return undefined
  const folders = binaryFolders(process.env)
  return findBinary('cc', folders) ?? findBinary('gcc', folders)
}

export async function createFaults(compiler: string): Promise<Faults> {
  await using kept = new AsyncDisposableStack()
  const folder = kept.use(createFolder('faults')).path
  // Servers run under separate accounts.
  chmodSync(folder, 0o755)
  const library = join(folder, 'shim.so')
  await runProgram(compiler, ['-shared', '-fPIC', '-O2', '-o', library, join(import.meta.dirname, 'shim.c')])
  const path = join(folder, 'faults')
  const file = openSync(path, 'w', 0o644)
  kept.defer(() => closeSync(file))
  const set: Faults['set'] = ({ syncMs = 0, clockMs = 0 }) => {
    writeSync(file, new BigInt64Array([BigInt(syncMs), BigInt(clockMs)]), 0, 16, 0)
  }
  set({})
  const owned = kept.move()
  return {
    env: { LD_PRELOAD: library, SIGNALBOX_FAULTS: path },
    set,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
