/**
 * What `import 'signalbox'` costs a program: time, and resident memory beyond that of an empty process. The package is
 * compiled as it is published, and each measurement is a fresh process.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { Conditions, Figures, Ground, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../../..')

const program = `
  const before = process.memoryUsage.rss()
  const startedAt = performance.now()
  await import(process.argv[1])
  const ms = performance.now() - startedAt
  console.log(JSON.stringify({ ms, megabytes: (process.memoryUsage.rss() - before) / 2 ** 20 }))`

async function importIn({ settings }: Conditions, entry: string): Promise<Figures> {
  const flags = ['--input-type=module', '--eval', program, entry]
  const { stdout } = await run(process.execPath, flags, { cwd: settings.folder })
  return JSON.parse(stdout) as Figures
}

/** Compiles `src` into a folder inside the project, where its dependencies are found. */
export async function compile(): Promise<Ground> {
  const parent = join(root, '.signalbox')
  mkdirSync(parent, { recursive: true })
  const folder = mkdtempSync(join(parent, 'import-'))
  await run(join(root, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json', '--outDir', folder], {
    cwd: root,
  })
  return {
    settings: { folder },
    async [Symbol.asyncDispose]() {
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export const importTrial: Trial = {
  name: 'import',
  open: compile,
  contestants: {
    signalbox: (conditions) =>
      importIn(conditions, pathToFileURL(join(conditions.settings.folder!, 'index.js')).href),
    'graphile-worker': (conditions) => importIn(conditions, 'graphile-worker'),
    bullmq: (conditions) => importIn(conditions, 'bullmq'),
  },
  cases: [
    {
      name: 'import-ms',
      unit: 'ms to import',
      better: 'lower',
      figure: 'ms',
      peers: ['graphile-worker', 'bullmq'],
      goal: atMost(150),
    },
    {
      name: 'import-memory',
      unit: 'MB to import',
      better: 'lower',
      figure: 'megabytes',
      peers: ['graphile-worker', 'bullmq'],
      goal: atMost(30),
    },
  ],
}
