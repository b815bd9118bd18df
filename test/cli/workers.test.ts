import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import { root } from '../house/sources.ts'
import { findInterpreter } from '../support/interpreters.ts'
import { createWorkplace, type Serving } from './command.ts'

const examples = join(root, 'examples')
/** Each test starts its own server, and most of them wait, so they run at the same time. */
const testMs = 60_000
const aSecret = 'canary-0123456789abcdef0123456789abcdef'

/** Each language's worker with a handler for every kind there is below. */
const commands = {
  async python() {
    const program = `
import sys; sys.dont_write_bytecode = True; sys.path.insert(0, ${JSON.stringify(examples)})
import worker
def long(job):
    print("begun", flush=True); job["stop"].wait(60); raise RuntimeError("stopped")
def bad(job): raise ValueError("no good")
try: worker.run({"long": long, "bad": bad})
except worker.Refused as error: sys.exit(f"worker.py: {error.code}: {error}")
`
    return [await findInterpreter('python3'), '-c', program]
  },
  async shell(kind: string) {
    await findInterpreter('curl')
    const command = kind === 'long' ? 'echo begun; exec sleep 60' : 'exit 7'
    return [await findInterpreter('bash'), join(examples, 'worker.sh'), kind, 'sh', '-c', command]
  },
}
type Language = keyof typeof commands
const languages = Object.keys(commands) as Language[]

/** Starts a worker; it never outlives the test. */
async function startWorker(language: Language, kind: string, url: string, token?: string) {
  const [command, ...args] = await commands[language](kind)
  const env = { PATH: process.env.PATH, SIGNALBOX_URL: url, ...(token && { SIGNALBOX_TOKEN: token }) }
  const child = spawn(command!, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (said += text))
  const ended = once(child, 'close').then(([code]) => code as number | null)
  return {
    said: () => said,
    ended,
    kill: (signal: NodeJS.Signals) => void child.kill(signal),
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

interface Seen {
  readonly id: string
  readonly state: string
  readonly attempt: number
  readonly error: { readonly message: string } | null
}

async function ask({ url }: Serving, path: string, body?: unknown, token?: string): Promise<Seen> {
  const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) }
  const post = { method: 'POST', headers, body: JSON.stringify(body) }
  const reply = await fetch(`${url}/v1/jobs${path}`, body === undefined ? { headers } : post)
  return (await reply.json()) as Seen
}

async function until(look: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await look())) await sleep(50)
}

test.concurrent.for(languages)(
  '%s: a worker that is asked to stop hands its job back, which keeps its attempt',
  { timeout: testMs },
  async (language) => {
    using place = createWorkplace()
    await using server = await place.serve(['--database=memory:', '--log-level=warn'])
    const { id } = await ask(server, '', { kind: 'long' })
    await using worker = await startWorker(language, 'long', server.url)
    await until(() => worker.said().includes('begun'))
    assert.equal((await ask(server, `/${id}`)).state, 'running')
    worker.kill('SIGTERM')
    assert.equal(await worker.ended, 0, worker.said())
    const { state, attempt } = await ask(server, `/${id}`)
    assert.deepEqual([state, attempt], ['ready', 0])
  },
)

test.concurrent.for(languages)(
  '%s: a failed job shows the reason, and is retried later',
  {
    timeout: testMs,
  },
  async (language) => {
    using place = createWorkplace()
    await using server = await place.serve(['--database=memory:', '--log-level=warn'])
    const { id } = await ask(server, '', { kind: 'bad' })
    await using _worker = await startWorker(language, 'bad', server.url)
    await until(async () => (await ask(server, `/${id}`)).state === 'scheduled')
    const { error, attempt } = await ask(server, `/${id}`)
    assert.equal(attempt, 1)
    assert.match(error!.message, language === 'python' ? /^no good$/ : /^the command ended with 7$/)
  },
)

test.concurrent.for(languages)(
  '%s: a token comes from the environment, and without it the worker ends with one line',
  { timeout: testMs },
  async (language) => {
    using place = createWorkplace()
    await using server = await place.serve(['--database=memory:', '--log-level=warn'], {
      SIGNALBOX_TOKEN: aSecret,
    })
    const { id } = await ask(server, '', { kind: 'bad' }, aSecret)
    await using lost = await startWorker(language, 'bad', server.url)
    assert.equal(await lost.ended, 1)
    assert.match(lost.said(), /unauthorized/)
    await using worker = await startWorker(language, 'bad', server.url, aSecret)
    await until(async () => (await ask(server, `/${id}`, undefined, aSecret)).state === 'scheduled')
    assert.doesNotMatch(worker.said(), /canary/)
  },
)

test.concurrent.for(languages)(
  '%s: a worker learns from a renewal that its job is cancelled',
  { timeout: testMs },
  async (language) => {
    using place = createWorkplace()
    await using server = await place.serve(['--database=memory:', '--log-level=warn'])
    const { id } = await ask(server, '', { kind: 'long' })
    await using worker = await startWorker(language, 'long', server.url)
    await until(() => worker.said().includes('begun'))
    await ask(server, `/${id}/cancel`, {})
    await until(async () => (await ask(server, `/${id}`)).state !== 'running')
    assert.equal((await ask(server, `/${id}`)).state, 'cancelled')
  },
)
