import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { within } from '../deadline.ts'
import { binaryFolders, findBinary } from './binary.ts'

// apt takes one lock for the machine: our own calls run one after the other, and wait for another process's.
const lockWaitSeconds = 120
let queue: Promise<unknown> = Promise.resolve()
let updated: Promise<string | undefined> | undefined

/**
 * Installs Debian packages if this process may: it is root and there is an apt-get. Returns whether it did. Callers ask
 * only when SIGNALBOX_TEST_APT allows (source.ts).
 */
export function aptInstall(packages: readonly string[]): Promise<boolean> {
  const turn = queue.then(() => install(packages))
  queue = turn.catch(() => undefined)
  return turn
}

async function install(packages: readonly string[]): Promise<boolean> {
  if (process.getuid?.() !== 0) return false
  const aptGet = findBinary('apt-get', binaryFolders(process.env))
  if (aptGet === undefined) return false

  console.error(`[services] apt-get install ${packages.join(' ')} (SIGNALBOX_TEST_APT=0 forbids it)`)
  // A list that could not be fetched matters only if a package is then missing.
  updated ??= run(aptGet, ['update'])
  const stale = await updated
  const failure = await run(aptGet, ['install', '--yes', '--no-install-recommends', ...packages])
  if (failure === undefined) return true
  console.error(`[services] apt-get failed: ${[stale, failure].filter(Boolean).join('\n')}`)
  return false
}

const aptMs = 300_000

/**
 * Runs apt-get. Returns its output when it failed. The watchdog does not end it: a half installed package is worse than
 * an installation that outlives the run.
 */
async function run(aptGet: string, args: readonly string[]): Promise<string | undefined> {
  const child = spawn(aptGet, ['-qq', '-o', `DPkg::Lock::Timeout=${lockWaitSeconds}`, ...args], {
    // At run level 1 a package does not start its service.
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  try {
    const [code] = await within(aptMs, `apt-get ${args[0]}`, once(child, 'close'))
    return code === 0 ? undefined : said.trim().slice(-600)
  } catch (error) {
    return `${error}`
  }
}
