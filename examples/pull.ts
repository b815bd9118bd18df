/**
 * Ten nodes want one image. Each is a process; together they have one wait queue. The first puller is killed with
 * -9 half-way: the next in line takes over and pulls the image to its end, and nine nodes find it there.
 *
 *   node --conditions=source examples/pull.ts                       on a temporary SQLite file
 *   node --conditions=source examples/pull.ts postgres://…          or on any other store
 *
 * It checks itself: exit code 1 unless the image was pulled to the end exactly once, after the kill.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, appendFile, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Box, open } from 'signalbox'

const key = { operation: 'pull', resource: 'app:1.2' }
const nodeCount = 10
const layers = 8
/** Short, so that the line moves on soon after the kill. */
const ttlMs = 1_500

const [role, url = '', folder = '', name = ''] = process.argv.slice(2)
if (role === 'node') await beNode(url, folder, name)
else await supervise(role)

/** One node: it has the image when its file is there. */
async function beNode(url: string, folder: string, node: string): Promise<void> {
  await using box = await open(url)
  const image = join(folder, 'image')
  let pulled = false
  await box.locks.singleFlight(key.operation, key.resource, {
    node,
    ttlMs,
    check: () =>
      access(image).then(
        () => image,
        () => undefined,
      ),
    async run(held) {
      for (let layer = 1; layer <= layers; layer++) {
        await sleep(150, undefined, { signal: held.signal })
        await held.progress({ layer, of: layers })
        say({ node, at: layer })
      }
      // Only the holder of the lock gets here; the file appears as a whole.
      await writeFile(join(folder, `image.${held.token}`), 'the image')
      await rename(join(folder, `image.${held.token}`), image)
      await appendFile(join(folder, 'pulls'), `${node} with token ${held.token}\n`)
      pulled = true
      return image
    },
  })
  say({ node, end: pulled ? 'pulled it' : 'already there' })
}

function say(news: object): void {
  process.stdout.write(`${JSON.stringify(news)}\n`)
}

interface Node {
  readonly name: string
  readonly child: ChildProcess
  state: string
}

/** Starts the nodes, kills the first puller half-way, and sees what becomes of the image. */
async function supervise(given: string | undefined): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-pull-'))
  try {
    const url = given ?? `sqlite:${join(folder, 'signalbox.db')}`
    await using box = await open(url, { migrate: true })
    const nodes: Node[] = []
    const screen = createScreen(box, nodes)
    const ends: Promise<unknown>[] = []
    let killed: Node | undefined
    for (let number = 1; number <= nodeCount; number++) {
      const node = startNode(url, folder, `node-${number}`)
      nodes.push(node)
      ends.push(
        watchNode(node, (layer) => {
          if (killed !== undefined || layer < layers / 2) return
          killed = node
          node.child.kill('SIGKILL')
        }),
      )
    }
    await Promise.all(ends)
    await screen.stop()
    const { holder, waiterCount } = await box.locks.inspect(key)
    if (holder !== null || waiterCount > 0) return fail('the wait queue is not empty')
    await report(folder, nodes, killed)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function startNode(url: string, folder: string, name: string): Node {
  const args = ['--conditions=source', import.meta.filename, 'node', url, folder, name]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  return { name, child, state: 'starting' }
}

async function watchNode(node: Node, onLayer: (layer: number) => void): Promise<void> {
  const closed = once(node.child, 'close')
  for await (const line of createInterface({ input: node.child.stdout! })) {
    const { at, end } = JSON.parse(line) as { at?: number; end?: string }
    if (end !== undefined) node.state = end
    if (at !== undefined) onLayer(at)
  }
  const [code, signal] = await closed
  if (signal === 'SIGKILL') node.state = 'killed half-way'
  else if (code !== 0) node.state = `ended with ${signal ?? code}`
}

/** The line, whenever it moves: drawn in place on a terminal, as plain lines elsewhere. */
function createScreen(box: Box, nodes: readonly Node[]): { stop(): Promise<void> } {
  const over = new AbortController()
  let last = ''
  const draw = async () => {
    const { holder, waiters } = await box.locks.inspect(key)
    const progress = holder?.progress as { layer: number; of: number } | null | undefined
    const bar = progress ? `${'█'.repeat(progress.layer)}${'░'.repeat(progress.of - progress.layer)}` : ''
    const who = holder ? `${holder.node} ${bar} (attempt ${holder.attempt})` : 'no holder'
    const line = waiters.map(({ node }) => node.slice('node-'.length)).join(' ')
    const there = nodes.filter(({ state }) => state === 'already there').length
    const text = `pulling: ${who}  line: [${line}]  already there: ${there}`
    if (text === last) return
    last = text
    process.stdout.write(process.stdout.isTTY ? `\r\u001b[2K${text}` : `${text}\n`)
  }
  const drawing = (async () => {
    while (!over.signal.aborted) {
      await draw()
      await sleep(50, undefined, { signal: over.signal }).catch(() => undefined)
    }
  })()
  return {
    async stop() {
      over.abort()
      await drawing
      await draw()
      if (process.stdout.isTTY) process.stdout.write('\n')
    },
  }
}

async function report(folder: string, nodes: readonly Node[], killed: Node | undefined): Promise<void> {
  const pulls = (await readFile(join(folder, 'pulls'), 'utf8').catch(() => '')).trim().split('\n')
  const pullers = nodes.filter(({ state }) => state === 'pulled it')
  const there = nodes.filter(({ state }) => state === 'already there')
  for (const { name, state } of nodes) console.log(`${name.padEnd(8)} ${state}`)
  if (killed === undefined) return fail('no process was killed')
  if (pulls.length !== 1 || pullers.length !== 1 || pulls[0] === '') {
    return fail(`the image was pulled to the end ${pulls[0] === '' ? 0 : pulls.length} times`)
  }
  if (there.length !== nodeCount - 2) return fail(`${there.length} nodes report "already there"`)
  console.log(
    `The image was fetched to the end exactly once, by ${pulls[0]}, after ${killed.name} was killed half-way.`,
  )
  await restart(folder, killed.name)
}

/** The killed one comes back and is the ninth that finds it there. */
async function restart(folder: string, name: string): Promise<void> {
  const given = process.argv[2]
  const node = startNode(given ?? `sqlite:${join(folder, 'signalbox.db')}`, folder, name)
  await watchNode(node, () => undefined)
  if (node.state !== 'already there') return fail(`${name}, started again, ${node.state}`)
  console.log(`${name} was started again: already there. That makes nine.`)
}

function fail(why: string): void {
  console.error(`It went wrong: ${why}.`)
  process.exitCode = 1
}
