/**
 * `npm run follow`: does what the tutorial and the README say, word for word, in a fresh copy of this checkout each, and compares what they show
 * with what is seen. README.zh-CN.md has the same blocks (a house test compares them). Names on the command line narrow it: `npm run follow -- README.md`.
 *
 * Pages name the port that the server has by default. So they are followed in a network of their own, where it is free and from which nothing
 * leaves the machine. Where the system does not allow that, free ports stand in for those that a page names.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { createClone } from '../test/follow/clone.ts'
import { followPage } from '../test/follow/page.ts'

const root = join(import.meta.dirname, '..')
const pages = ['docs/tutorial.md', 'README.md']
const limitMs = 60_000

const wanted = process.argv.slice(2)
const chosen = pages.filter((page) => wanted.length === 0 || wanted.includes(page))
if (chosen.length === 0 || wanted.some((page) => !pages.includes(page))) {
  console.error(`Only these are followed: ${pages.join(', ')}.`)
  process.exitCode = 2
} else if (process.env.SIGNALBOX_FOLLOW_ALONE !== undefined) {
  process.exitCode = await followAll(true)
} else {
  process.exitCode = goAlone() ?? (await followAll(false))
}

/** Runs this program again in a separate network; undefined where that is not possible. */
function goAlone(): number | undefined {
  const alone = ['--net', ...(process.getuid?.() === 0 ? [] : ['--map-root-user']), 'sh', '-c']
  const up = 'ip link set lo up'
  if (process.platform !== 'linux' || spawnSync('unshare', [...alone, up]).status !== 0) return undefined
  const env = { ...process.env, SIGNALBOX_FOLLOW_ALONE: '1' }
  const command = [
    `${up}; exec "$@"`,
    'sh',
    process.execPath,
    ...process.execArgv,
    import.meta.filename,
    ...chosen,
  ]
  return spawnSync('unshare', [...alone, ...command], { stdio: 'inherit', env }).status ?? 1
}

async function followAll(alone: boolean): Promise<number> {
  let exitCode = 0
  for (const page of chosen) {
    const begunAt = performance.now()
    console.log(page)
    using clone = createClone(root)
    const text = readFileSync(join(clone.folder, page), 'utf8')
    const ports = alone ? [] : await freePorts(text)
    const env = {
      ...clone.env,
      ...(alone ? {} : { SIGNALBOX_PORT: ports.find(([from]) => from === '7420')?.[1] }),
    }
    const place = { ...clone, env, limitMs }
    try {
      await followPage(withPorts(text, ports), place, (line) => console.log(`  ${line}`))
      console.log(`ok ${page} ${Math.round(performance.now() - begunAt)} ms`)
    } catch (error) {
      exitCode = 1
      console.log(`FAIL ${page}, ${(error as Error).message}`)
    }
  }
  return exitCode
}

/** A free port for each that the page names. */
async function freePorts(text: string): Promise<readonly (readonly [string, string])[]> {
  const named = new Set([...text.matchAll(/\b127\.0\.0\.1:(\d+)/g)].map(([, port]) => port!))
  return Promise.all([...named].map(async (port) => [port, await freePort()] as const))
}

function withPorts(text: string, ports: readonly (readonly [string, string])[]): string {
  return ports.reduce((changed, [from, to]) => changed.replaceAll(new RegExp(`\\b${from}\\b`, 'g'), to), text)
}

function freePort(): Promise<string> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(String(port)))
    })
  })
}
