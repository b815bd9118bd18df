/** Blocks that another program runs: a shell, Python. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { findInterpreter } from '../support/interpreters.ts'
import { promisesIn } from '../support/snippets.ts'
import type { Block } from './blocks.ts'
import { startCommandService } from './command-service.ts'
import { shellEnvironment } from './prelude.ts'

/** Programs that pages call by name and that are ours to give: before all others on the PATH. */
const commands = join(import.meta.dirname, 'commands')
const limitMs = 60_000
let service: Promise<void> | undefined

/** Runs a block in the page's folder, to its end; answers what it printed, throws when it failed or promised other output. */
export async function runScript({ way, line }: Block, text: string): Promise<string> {
  const isShell = way === 'shell'
  const file = isShell ? 'snippet.sh' : 'snippet.py'
  // So that a complaint about line 47 means line 47 of the page.
  writeFileSync(file, '\n'.repeat(line) + text)
  if (isShell && text.includes('signalbox ')) {
    service ??= startCommandService()
    await service
  }
  const path = [commands, join(process.cwd(), 'bin'), dirname(process.execPath), process.env.PATH]
  const program = await findInterpreter(isShell ? 'bash' : 'python3')
  const child = spawn(program, isShell ? ['-euo', 'pipefail', file] : [file], {
    env: { ...process.env, ...shellEnvironment, PATH: path.join(delimiter), PAGE_FOLDER: process.cwd() },
    stdio: ['ignore', 'pipe', 'pipe'],
    // In a new process group, so that nothing that the block started is left behind.
    detached: true,
  })
  const killAll = () => {
    try {
      process.kill(-child.pid!, 'SIGKILL')
    } catch {
      // All of it has ended already.
    }
  }
  const timer = setTimeout(killAll, limitMs)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (said: string) => (output += said))
  }
  const [code, signal] = await once(child, 'close')
  clearTimeout(timer)
  killAll()
  if (code !== 0) throw new Error(`it ended with ${signal ?? code}:\n${output}`)
  for (const promised of promisesIn(text)) {
    if (!promised.pattern.test(output)) throw new Error(`it promises ${promised.text}, and said:\n${output}`)
  }
  return output
}
