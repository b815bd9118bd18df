/**
 * What `signalbox serve` costs when nothing is asked of it: from its start in an empty folder until `/livez` answers, and
 * then its resident memory and CPU while it is idle. The package is compiled as it is published; Node keeps compiled code
 * between starts, as it does for operators. No scraper is connected.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { within } from '../../../test/support/deadline.ts'
import type { Contestant, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'
import { compile } from './import.ts'

/** Far more than the goal: a server that takes longer has no figure but a fault. */
const answerMs = 60_000
/** By then the server has collected the garbage of its start. */
const settleMs = 15_000

const signalbox: Contestant = async ({ quick, settings }) => {
  const folder = settings.folder!
  const startedAt = performance.now()
  const child = spawn(
    process.execPath,
    [join(folder, 'cli', 'main.js'), 'serve', '--port', '0', '--json', '--log-level', 'warn'],
    {
      env: { ...process.env, SIGNALBOX_DATABASE: `sqlite:${join(folder, `${process.pid}.db`)}` },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  try {
    const signal = AbortSignal.timeout(answerMs)
    const [line] = (await once(child.stdout.setEncoding('utf8'), 'data', { signal })) as [string]
    const { url } = JSON.parse(line.split('\n')[0]!) as { url: string }
    const { status } = await fetch(`${url}/livez`, { signal })
    if (status !== 200) throw new Error(`/livez answered ${status}`)
    const ms = performance.now() - startedAt
    await sleep(settleMs)
    const pid = child.pid!
    const idleMs = quick ? 10_000 : 30_000
    const cpuBefore = cpuMsOf(pid)
    await sleep(idleMs)
    const cpuPercent = ((cpuMsOf(pid) - cpuBefore) / idleMs) * 100
    return { ms, cpuPercent, megabytes: residentMegabytesOf(pid) }
  } finally {
    child.kill('SIGTERM')
    if (child.exitCode === null && child.signalCode === null)
      await within(10_000, 'the end of the server', once(child, 'exit'))
  }
}

/** The run time of all threads, as the scheduler counts it; the ticks of `/proc/PID/stat` are too coarse for an idle process. */
function cpuMsOf(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const nanoseconds = threads.map((thread) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
  )
  return nanoseconds.reduce((sum, one) => sum + one, 0) / 1e6
}

function residentMegabytesOf(pid: number): number {
  const [, kilobytes] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!
  return Number(kilobytes) / 1_024
}

export const startTrial: Trial = {
  name: 'start',
  open: compile,
  contestants: { signalbox },
  cases: [
    { name: 'start', unit: 'ms to /livez', better: 'lower', figure: 'ms', peers: [], goal: atMost(500) },
    {
      name: 'idle-memory',
      unit: 'MB, idle',
      better: 'lower',
      figure: 'megabytes',
      peers: [],
      goal: atMost(110),
    },
    {
      name: 'idle-cpu',
      unit: '% of a core, idle',
      better: 'lower',
      figure: 'cpuPercent',
      peers: [],
      goal: atMost(0.5),
    },
  ],
}
