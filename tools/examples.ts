/**
 * `npm run examples`: runs every example as a reader would, each to its end and within a time limit. Names on the
 * command line narrow it: `npm run examples -- controller`.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'

const limitMs = 30_000
const folder = join(import.meta.dirname, '..', 'examples')

/** Runs one example; answers with why it failed, if it did, and what it printed. */
async function run(file: string): Promise<{ failure: string | undefined; output: string }> {
  const child = spawn(process.execPath, ['--conditions=source', file], {
    cwd: folder,
    // Examples that can be long are short where `CI` is set, and say so.
    env: { ...process.env, CI: 'true' },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: limitMs,
    killSignal: 'SIGKILL',
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  const [code, signal] = await once(child, 'close')
  if (code === 0) return { failure: undefined, output }
  const timedOut = signal === 'SIGKILL' && child.killed
  return { failure: timedOut ? `did not end in ${limitMs} ms` : `ended with ${signal ?? code}`, output }
}

const wanted = process.argv.slice(2)
const files = readdirSync(folder)
  .filter((file) => file.endsWith('.ts') && (wanted.length === 0 || wanted.includes(basename(file, '.ts'))))
  .sort()
if (files.length === 0) {
  console.error(`no example ${wanted.length === 0 ? 'in examples/' : `is named ${wanted.join(', ')}`}`)
  process.exit(1)
}

for (const file of files) {
  const begun = performance.now()
  const { failure, output } = await run(file)
  const ms = Math.round(performance.now() - begun)
  console.log(
    `${failure === undefined ? 'ok  ' : 'FAIL'} examples/${file} ${ms} ms${failure ? `: ${failure}` : ''}`,
  )
  if (failure === undefined) continue
  process.exitCode = 1
  console.log(output.replace(/^/gm, '     '))
}
