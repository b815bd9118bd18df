/** The live view in a real terminal: what it shows, what keys do, and that the terminal is given back. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, test } from 'vitest'
import { createServer, type Server } from '../../src/http/server/index.ts'
import { type Box, open } from '../../src/index.ts'
import { within } from '../support/deadline.ts'
import { openWindow, type TerminalWindow } from './tmux.ts'

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
let box: Box
let server: Server
let url: string
const folders: string[] = []

beforeAll(async () => {
  box = await open('memory:')
  server = createServer({ box, port: 0 })
  ;({ url } = await server.listen())
  await box.jobs.add('mail', {}, { queue: 'mail' })
  await box.jobs.add('mail', {}, { queue: '邮件队列' })
  await box.locks.acquire({ operation: 'pull', resource: 'nginx', node: 'machine-1', ttlMs: '1h' })
  await box.locks.acquire({ operation: 'pull', resource: 'redis', node: 'machine-2', ttlMs: '1h' })
})

afterAll(async () => {
  await server.close()
  await box.close()
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})

/** A terminal that runs the view, with a line before and after it, and the file with its pid. */
async function openTop(
  options: { readonly env?: Record<string, string>; readonly node?: string; readonly every?: string } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'sb-top-'))
  folders.push(folder)
  const top = `${process.execPath} ${options.node ?? ''} ${main} top --url ${url} --every ${options.every ?? '200ms'}`
  writeFileSync(join(folder, 'top.sh'), `echo $$ > pid\nexec ${top} 2> errors\n`)
  writeFileSync(
    join(folder, 'crash.mjs'),
    "process.on('SIGUSR2', () => { throw new Error('it fell over') })\n",
  )
  const { NODE_COMPILE_CACHE = '' } = process.env
  const window = await openWindow(folder, 'echo BEFORE; sh top.sh; echo "ENDED $?"; stty -a', {
    ...{ NODE_COMPILE_CACHE },
    ...options.env,
  })
  return {
    window,
    pid: () => Number(readFileSync(join(folder, 'pid'), 'utf8')),
    errors: () => readFileSync(join(folder, 'errors'), 'utf8'),
  }
}

/** The earlier screen, a cursor, and a line discipline that echoes. */
async function expectRestored(window: TerminalWindow, exitCode: RegExp): Promise<void> {
  const shown = await window.shows(/ENDED \d+[\s\S]*echo/)
  assert.match(shown, /^BEFORE$/m)
  assert.match(shown, exitCode)
  assert.match(shown, /(?<!-)icanon/)
  assert.match(shown, /(?<!-)echo\b/)
  assert.doesNotMatch(shown, /signalbox top/)
  assert.deepEqual([await window.ask('alternate_on'), await window.ask('cursor_flag')], ['0', '1'])
}

test('top shows pages, the filter, help and a small window, and restores the terminal at the end', async () => {
  const { window } = await openTop()
  await using _window = window
  const first = await window.shows(/^> mail +1 /m)
  assert.match(first, /\[1 queues\]/)
  assert.equal(await window.ask('alternate_on'), '1')
  assert.equal(await window.ask('cursor_flag'), '0')
  // Names of wide characters leave the columns where they are.
  const columnOf = (line: string) => Array.from(line.replace(/\p{Script=Han}/gu, 'xx')).lastIndexOf('-')
  const lines = first.split('\n').filter((line) => /^(> mail| {2}邮件队列)/.test(line))
  assert.equal(lines.length, 2)
  assert.match(lines[1]!, /^ {2}邮件队列 +1 /)
  assert.equal(columnOf(lines[0]!), columnOf(lines[1]!))

  await window.press('l')
  assert.match(await window.shows(/pull +redis +machine-2/), /pull +nginx +machine-1/)
  await window.press('/', 'redis')
  const filtered = await window.shows(/\/redis_/)
  assert.doesNotMatch(filtered, /nginx/)
  await window.press('Enter', '?')
  await window.shows(/evict the holder of the lock/)
  await window.press('x')
  await window.shows(/Only what contains "redis"/)
  await window.resize(50, 10)
  const small = await window.shows(/^> pull +redis/m)
  assert.ok(small.split('\n').every((line) => line.length <= 50))
  // The first shows all rows again, the second quits.
  await window.press('Escape')
  await window.shows(/nginx/)
  await window.resize(90, 40)
  await window.press('Escape')
  await expectRestored(window, /ENDED 0/)
}, 90_000)

test('a capital letter asks a question, and acts only after y', async () => {
  const { window } = await openTop({ env: { NO_COLOR: '1' } })
  await using _window = window
  const isPaused = async () => (await box.jobs.stats()).find(({ queue }) => queue === 'mail')!.paused
  await window.shows(/^> mail +1 /m)
  await window.press('P')
  await window.shows(/Pause mail\? y\/N/)
  await window.press('n')
  await window.shows(/Nothing was done/)
  assert.equal(await isPaused(), false)
  await window.press('P')
  await window.shows(/Pause mail\? y\/N/)
  await window.press('y')
  await window.shows(/^> mail.* paused/m)
  assert.equal(await isPaused(), true)
  await box.jobs.resume('mail')
  await window.shows(/^> mail +1 (?!.*paused).*$/m)
  await window.press('l')
  await window.shows(/^> pull +nginx/m)
  await window.press('E')
  await window.shows(/Evict machine-1 from pull nginx\?/)
  await window.press('y')
  await window.shows(/^> pull +redis/m)
  await window.press('q')
  await window.resize(90, 40)
  await expectRestored(window, /ENDED 0/)
}, 90_000)

test('top restores the terminal when a signal ends it, and when it crashes', async () => {
  const reported = await openTop()
  await using _told = reported.window
  const fallen = await openTop({ node: '--import ./crash.mjs' })
  await using _fallen = fallen.window
  for (const { window } of [reported, fallen]) {
    await window.shows(/^> mail +1 /m)
    await window.resize(90, 40)
  }
  process.kill(reported.pid(), 'SIGTERM')
  await expectRestored(reported.window, /ENDED 0/)
  process.kill(fallen.pid(), 'SIGUSR2')
  await expectRestored(fallen.window, /ENDED [1-9]/)
  assert.match(fallen.errors(), /it fell over/)
}, 90_000)

test('an idle top uses almost no processor time, and ends when its window is closed', async () => {
  const { window, pid } = await openTop({ every: '1s' })
  await using _window = window
  await window.shows(/^> mail +1 /m)
  // Compiling what is used once is no part of it.
  await window.press('l', 'c', 'n', '1')
  await window.shows(/\[1 queues\][\s\S]*^> mail/m)
  const begun = performance.now()
  const before = cpuMsOf(pid())
  await new Promise((resolve) => setTimeout(resolve, 5_000))
  const share = (cpuMsOf(pid()) - before) / (performance.now() - begun)
  assert.ok(share <= 0.02, `it took ${(share * 100).toFixed(2)} % of a core`)
  const top = pid()
  await window[Symbol.asyncDispose]()
  await within(20_000, 'top to end', gone(top))
}, 90_000)

/** Of the process so far, by the kernel, which counts in hundredths of a second. */
function cpuMsOf(pid: number): number {
  const [, fields = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const [user = 0, system = 0] = fields.split(' ').slice(11, 13).map(Number)
  return (user + system) * 10
}

async function gone(pid: number): Promise<void> {
  for (;;) {
    try {
      process.kill(pid, 0)
    } catch {
      return
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
