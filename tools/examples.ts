/**
 * `npm run examples`: runs every example as a reader would, each to its end and within a time limit. A worker in another
 * language gets a server and a job, and must end well when it is told to. Names on the command line narrow it:
 * `npm run examples -- controller worker.py`.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findInterpreter, type Interpreter } from '../test/support/interpreters.ts'

/** Far above what any of them needs: on a busy machine they are slow, and end by themselves when they are stuck. */
const limitMs = 270_000
const root = join(import.meta.dirname, '..')
const folder = join(root, 'examples')

/** What runs a worker in another language, and what it is told to do for the kind "hello". */
const workers: Readonly<Record<string, { readonly by: Interpreter; readonly args: readonly string[] }>> = {
  'worker.py': { by: 'python3', args: [] },
  'worker.sh': { by: 'bash', args: ['hello', 'sh', '-c', 'cat >/dev/null'] },
}

/** Why an example failed, if it did, and what it printed. */
interface Outcome {
  readonly failure: string | undefined
  readonly output: string
}

interface Running {
  readonly child: ChildProcess
  readonly ended: Promise<string>
  output(): string
}

function start(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Running {
  const child = spawn(command, args, {
    cwd: folder,
    // Examples that can be long are short where `CI` is set, and say so.
    env: { ...process.env, CI: 'true', ...env },
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
  const ended = once(child, 'close').then(([code, signal]) => {
    if (signal === 'SIGKILL' && child.killed) return `did not end in ${limitMs} ms`
    return `ended with ${signal ?? code}`
  })
  return { child, ended, output: () => output }
}

const well = 'ended with 0'

/** Runs a program of ours to its end. */
async function runProgram(file: string): Promise<Outcome> {
  const { ended, output } = start(process.execPath, ['--conditions=source', file])
  const how = await ended
  return { failure: how === well ? undefined : how, output: output() }
}

/** Gives a worker a separate server and one job. */
async function runWorker(file: string): Promise<Outcome> {
  const { by, args } = workers[file]!
  const serve = [join(root, 'src', 'cli', 'main.ts'), 'serve', '--port=0', '--database=memory:', '--json']
  const server = start(process.execPath, serve)
  try {
    const url = await until(() => /"url":"([^"]+)"/.exec(server.output())?.[1], 'the server did not listen')
    const { id } = await ask(url, '', { kind: 'hello', payload: { name: 'Ada' } })
    const worker = start(await findInterpreter(by), [file, ...args], { SIGNALBOX_URL: url })
    const output = () => `${worker.output()}${server.output()}`
    try {
      await until(async () => (await ask(url, `/${id}`)).state === 'completed', 'the job was not completed')
    } catch (error) {
      worker.child.kill('SIGKILL')
      return { failure: (error as Error).message, output: output() }
    }
    worker.child.kill('SIGTERM')
    const how = await worker.ended
    return { failure: how === well ? undefined : `${how} when it was told to stop`, output: output() }
  } finally {
    server.child.kill('SIGKILL')
    await server.ended
  }
}

async function ask(url: string, path: string, body?: unknown): Promise<{ id: string; state: string }> {
  const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const reply = await fetch(`${url}/v1/jobs${path}`, body === undefined ? {} : post)
  return (await reply.json()) as { id: string; state: string }
}

async function until<Value>(
  look: () => Value | Promise<Value>,
  otherwise: string,
): Promise<NonNullable<Value>> {
  for (const endsAt = performance.now() + limitMs; performance.now() < endsAt; await sleep(50)) {
    const seen = await look()
    if (seen) return seen
  }
  throw new Error(`${otherwise} in ${limitMs} ms`)
}

const wanted = process.argv.slice(2)
const files = [...readdirSync(folder), ...readdirSync(join(folder, 'mounts')).map((file) => `mounts/${file}`)]
  .filter((file) => file.endsWith('.ts') || file in workers)
  .filter(
    (file) =>
      wanted.length === 0 ||
      wanted.some((name) => [file, file.replace(/\.ts$/, ''), basename(file, '.ts')].includes(name)),
  )
  .sort()
if (files.length === 0) {
  console.error(`no example ${wanted.length === 0 ? 'in examples/' : `is named ${wanted.join(', ')}`}`)
  process.exit(1)
}

/** Two at a time: most of them wait more than they work. Both lanes take from the same line. */
const line = files.values()
await Promise.all([runLane(), runLane()])

async function runLane(): Promise<void> {
  for (const file of line) {
    const begun = performance.now()
    const { failure, output } = await (file in workers ? runWorker : runProgram)(file)
    const ms = Math.round(performance.now() - begun)
    console.log(
      `${failure === undefined ? 'ok  ' : 'FAIL'} examples/${file} ${ms} ms${failure ? `: ${failure}` : ''}`,
    )
    if (failure === undefined) continue
    process.exitCode = 1
    console.log(output.replace(/^/gm, '     '))
  }
}
