import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import { hasService, serviceFacts } from '../support/services/own.ts'
import { serviceNames } from '../support/services/service.ts'
import { forgetProcess, keepProcess } from '../support/services/watchdog-client.ts'

// A server that existed before this run is not ours to end.
const started = serviceNames.filter((name) => hasService(name) && serviceFacts(name).from !== 'environment')
const one = started.slice(-1)

interface Left {
  readonly pid: number
  readonly folder: string
}

/** Runs leaver.ts until its services are up. The answer has its pid and the folders that it will leave. */
async function startLeaver(manner: string, names: readonly string[]) {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'leaver.ts'), manner, ...names], {
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  })
  // If this test run were killed now, the leaver would wait for ever.
  const pid = child.pid ?? assert.fail('the leaver did not start')
  keepProcess(pid, 'SIGKILL')
  const ended = once(child, 'exit').finally(() => forgetProcess(pid))
  const lines = createInterface({ input: child.stdout })
  const [line] = await Promise.race([
    once(lines, 'line'),
    ended.then(([code]) => assert.fail(`the leaver ended with ${code} before its services were up`)),
  ])
  return { child, ended, left: JSON.parse(line) as Left[] }
}

async function untilGone(left: readonly Left[]): Promise<void> {
  const deadline = Date.now() + 10_000
  const isLeft = ({ pid, folder }: Left) => isRunning(pid) || existsSync(folder) || isHome(folder)
  while (left.some(isLeft) && Date.now() < deadline) await sleep(20)
  assert.deepEqual(left.filter(isLeft), [])
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch {
    return false
  }
  // A dead process keeps its number until its parent has looked, which in a bare container may be never.
  const stat = `/proc/${pid}/stat`
  return !existsSync(stat) || !/\) Z /.test(readFileSync(stat, 'utf8'))
}

/** Whether any process has the folder as its working directory; servers do, and so do their forked processes. */
function isHome(folder: string): boolean {
  if (process.platform !== 'linux') return false
  return readdirSync('/proc').some((entry) => {
    try {
      return readlinkSync(`/proc/${entry}/cwd`).startsWith(folder)
    } catch {
      return false
    }
  })
}

test.runIf(started.length > 0)(
  'servers and their folders are removed when the run is killed with -9',
  async () => {
    const { child, ended, left } = await startLeaver('waits', started)
    assert.equal(left.length, started.length)
    for (const { pid, folder } of left) assert.ok(isRunning(pid) && existsSync(folder))
    child.kill('SIGKILL')
    await ended
    await untilGone(left)
  },
)

for (const manner of ['throws', 'exits']) {
  test.runIf(one.length > 0)(
    `servers and their folders are removed when the run ${manner} without ending them`,
    async () => {
      const { ended, left } = await startLeaver(manner, one)
      const [code] = await ended
      assert.equal(code, manner === 'throws' ? 1 : 0)
      await untilGone(left)
    },
  )
}
