/**
 * Breaks the code on purpose, one line at a time, and records the tests that notice. It happens in a copy of the
 * project, because the checkout may be in use; node_modules is linked, not copied.
 */
import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface Mutation {
  /** From the project's root. */
  readonly file: string
  /** Stands exactly once in the file. */
  readonly find: string
  readonly replace: string
  /** What is no longer true with it. */
  readonly breaks: string
}

export interface Copy extends Disposable {
  /** Runs the tests under these paths. Returns the names of those that failed. */
  failing(paths: readonly string[]): Promise<string[]>
  /** Changes the copy until the result is disposed of. */
  apply(mutation: Mutation): Disposable
}

const copied = ['src', 'test', 'package.json', 'vitest.config.ts', 'tsconfig.json']
/** A mutation may turn a loop endless, which no test's time-out can end. */
const deadlineMs = 120_000
export const hung = 'the run itself: it did not end'

/** The file's text with the mutation in it; throws when the mutation is out of date. */
export function mutated(text: string, { file, find, replace }: Mutation): string {
  const at = text.indexOf(find)
  if (at < 0) throw new Error(`${file} no longer has "${find}": bring the mutation up to date.`)
  if (text.indexOf(find, at + 1) >= 0)
    throw new Error(`${file} has "${find}" more than once: say more of the line.`)
  return text.slice(0, at) + replace + text.slice(at + find.length)
}

/** Copies the project to a temporary folder, gone when disposed of. */
export function createCopy(root: string = fileURLToPath(new URL('../..', import.meta.url))): Copy {
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-mutations-'))
  for (const name of copied) cpSync(join(root, name), join(folder, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  // For an interrupted soak: `using` does not cover that.
  process.once('exit', remove)
  return {
    failing: (paths) => failingTests(folder, paths),
    apply(mutation) {
      const path = join(folder, mutation.file)
      const original = readFileSync(path, 'utf8')
      writeFileSync(path, mutated(original, mutation))
      return { [Symbol.dispose]: () => writeFileSync(path, original) }
    },
    [Symbol.dispose]() {
      process.off('exit', remove)
      remove()
    },
  }
}

async function failingTests(folder: string, paths: readonly string[]): Promise<string[]> {
  const report = join(folder, 'report.json')
  rmSync(report, { force: true })
  const ended = await run(folder, [
    join('node_modules', 'vitest', 'vitest.mjs'),
    ...['run', ...paths, '--reporter=json', `--outputFile=${report}`],
    // One failing test is enough, and a promise that never settles should not take long.
    ...['--bail=1', '--testTimeout=10000'],
  ])
  if (!ended) return [hung]
  return decodeReport(readFileSync(report, 'utf8'))
}

/** The part of vitest's JSON report that is read here. */
interface VitestReport {
  readonly numTotalTests: number
  readonly testResults: readonly {
    readonly name: string
    readonly message: string
    readonly status: string
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[]
  }[]
}

/** The names of the failed tests. A file that did not load at all is an error: nothing was tested then. */
export function decodeReport(text: string): string[] {
  const { numTotalTests, testResults } = JSON.parse(text) as VitestReport
  for (const { name, message, status, assertionResults } of testResults) {
    if (status === 'failed' && assertionResults.length === 0)
      throw new Error(`${name} did not load: ${message}`)
  }
  if (numTotalTests === 0) throw new Error('There were no tests to run.')
  return testResults.flatMap(({ assertionResults }) =>
    assertionResults.filter(({ status }) => status === 'failed').map(({ fullName }) => fullName.trim()),
  )
}

/** Whether it ended in time without a kill. Its exit code adds nothing to the report. */
function run(cwd: string, argv: string[]): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>()
  // In a new process group, so that the test workers end with it.
  const child = spawn(process.execPath, argv, { cwd, stdio: 'ignore', detached: true })
  const end = (): void => void process.kill(-child.pid!, 'SIGKILL')
  const timer = setTimeout(() => {
    end()
    resolve(false)
  }, deadlineMs)
  process.once('exit', end)
  child.on('error', reject)
  child.on('close', () => {
    clearTimeout(timer)
    process.off('exit', end)
    resolve(true)
  })
  return promise
}
