/**
 * Eight crawlers watch the same 200 venues and report what they see to one server; people are notified of changes by a
 * webhook. Crawlers and the server are killed with -9 at random all the while. At the end stands a proof: every real
 * change was notified, none twice unless the repeat says so, and what was held back is listed with its reason.
 *
 *   node --conditions=source examples/crawler.ts                       on a temporary SQLite file
 *   node --conditions=source examples/crawler.ts postgres://…          or on any other store
 *
 * It checks itself: exit code 1 if a change was lost or notified twice without a word.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer as createHttpServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'signalbox'
import { verifyWebhook } from 'signalbox/monitor'
import { createServer } from 'signalbox/server'

const isShort = process.env.CI !== undefined
const crawlerCount = 8
const venueCount = 200
const changeCount = isShort ? 60 : 400
/** These go to and fro between two states; after the first round everybody knows both. */
const flappingCount = 5
const slot = { source: 'courts', timeSlot: '18:00-19:00' }

/** The server: it keeps what was reported, decides, and sends. */
async function beServer(url: string, port: number): Promise<void> {
  await using box = await open(url, { migrate: true, allowPrivate: ['127.0.0.0/8'] })
  await using server = createServer({ box, port })
  const { url: address } = await server.listen()
  process.stdout.write(`${address}\n`)
  await new Promise(() => undefined)
}

/** A crawler: it looks at the venues in a loop. Half of the crawlers share their tasks, the others have their own. */
async function beCrawler(server: string, world: string, name: string): Promise<void> {
  await using box = await open(server as `http://${string}`, { timeoutMs: 4_000 })
  process.stdout.write('ready\n')
  for (;;) {
    try {
      const { round, at, venues } = (await (await fetch(world)).json()) as World
      const taskId = Number(name) % 2 === 0 ? `round ${round}` : `round ${round} of crawler ${name}`
      await box.monitor.report({ taskId, ...slot, observedAt: at, venues })
    } catch {
      // The server is away. What was seen is still to be seen next time.
    }
    await sleep(200 + Math.random() * 200)
  }
}

interface World {
  readonly round: number
  readonly at: number
  readonly venues: readonly { readonly venueId: string; readonly state: unknown }[]
}

/** A venue as it truly is, and the changes that people must be notified of. */
class Truth {
  readonly #states = new Map<string, number>()
  readonly #flapping: readonly string[]
  /** By venue and state: how often it was notified, and how often of these as a possible repeat. */
  readonly notified = new Map<string, { times: number; marked: number }>()
  readonly changes: string[] = []

  constructor() {
    for (let number = 1; number <= venueCount; number++) this.#states.set(`court-${number}`, 0)
    this.#flapping = [...this.#states.keys()].slice(0, flappingCount)
  }

  look(): World {
    const venues = Array.from(this.#states, ([venueId, state]) => ({ venueId, state: { version: state } }))
    return { round: Math.floor(Date.now() / 500), at: Date.now(), venues }
  }

  /** A new state for some venue whose last one was notified: a change that no crawler saw cannot be notified. */
  change(): boolean {
    const free = [...this.#states.keys()]
      .slice(flappingCount)
      .filter((venueId) => this.#states.get(venueId) === 0 || this.notified.has(this.#nameOf(venueId)))
    const venueId = free[Math.floor(Math.random() * free.length)]
    if (venueId === undefined) return false
    this.#states.set(venueId, this.#states.get(venueId)! + 1)
    this.changes.push(this.#nameOf(venueId))
    return true
  }

  flap(): void {
    for (const venueId of this.#flapping) this.#states.set(venueId, 1 - this.#states.get(venueId)!)
  }

  #nameOf(venueId: string): string {
    return nameOf(venueId, { version: this.#states.get(venueId)! })
  }
}

function nameOf(venueId: string, state: { readonly version: number }): string {
  return `${venueId} in state ${state.version}`
}

/** Where people are notified: it believes what is signed, and notes how often it hears the same. */
async function listenForPeople(truth: Truth, secret: string) {
  const repeats = { known: 0 }
  const seenIds = new Set<string>()
  const server = createHttpServer(async (request, response) => {
    if (request.url === '/world') return void response.end(JSON.stringify(truth.look()))
    const body = await readBody(request)
    const seen = (id: string) => seenIds.size === seenIds.add(id).size
    const verdict = await verifyWebhook({ headers: request.headers, body, secret, seen })
    if (!verdict.valid && verdict.problem !== 'replayed') return void response.writeHead(401).end()
    if (!verdict.valid) repeats.known++
    const { data } = JSON.parse(body) as { data: Notified }
    for (const { venueId, to } of data.changes) {
      const name = nameOf(venueId, to)
      const notified = truth.notified.get(name) ?? { times: 0, marked: 0 }
      truth.notified.set(name, {
        times: notified.times + 1,
        marked: notified.marked + (data.possibleRepeat ? 1 : 0),
      })
    }
    response.end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, repeats, close: () => void server.close() }
}

interface Notified {
  readonly possibleRepeat: boolean
  readonly changes: readonly { readonly venueId: string; readonly to: { readonly version: number } }[]
}

async function readBody(request: IncomingMessage): Promise<string> {
  let body = ''
  for await (const part of request.setEncoding('utf8')) body += part
  return body
}

/** A process that is started again whenever it is killed, until it is to end. */
class Kept {
  readonly #args: readonly string[]
  #child: ChildProcess | undefined
  #ended: Promise<unknown> = Promise.resolve()
  #isOver = false
  kills = 0

  constructor(...args: readonly string[]) {
    this.#args = args
  }

  /** Answers its first line, which it prints when it is ready. */
  async start(): Promise<string> {
    const args = ['--conditions=source', import.meta.filename, ...this.#args]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#child = child
    this.#ended = once(child, 'close')
    for await (const line of createInterface({ input: child.stdout! })) return line
    return ''
  }

  async kill(): Promise<void> {
    this.kills++
    this.#child?.kill('SIGKILL')
    await this.#ended
    if (!this.#isOver) await this.start()
  }

  async end(): Promise<void> {
    this.#isOver = true
    this.#child?.kill('SIGKILL')
    await this.#ended
  }
}

async function supervise(given: string | undefined): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-crawler-'))
  const url = given ?? `sqlite:${join(folder, 'signalbox.db')}`
  const secret = randomBytes(24).toString('hex')
  const truth = new Truth()
  const people = await listenForPeople(truth, secret)
  const port = await freePort()
  const server = new Kept('server', url, `${port}`)
  const crawlers: Kept[] = []
  try {
    const address = (await server.start()) as `http://${string}`
    await using box = await open(address)
    const channel = { type: 'webhook' as const, url: `${people.url}/people`, secret }
    await box.monitor.subscribe({ name: 'people', match: { source: slot.source }, channel, retryInMs: 500 })
    // The baseline: all venues as they are now, without notifications.
    const { at, venues } = truth.look()
    await box.monitor.report({ taskId: 'baseline', ...slot, observedAt: at, venues })
    for (let name = 1; name <= crawlerCount; name++)
      crawlers.push(new Kept('crawler', address, `${people.url}/world`, `${name}`))
    await Promise.all(crawlers.map((crawler) => crawler.start()))

    const isDone = await disturb(truth, server, crawlers)
    const decisions = await countReasons(box.monitor)
    report(truth, { isDone, decisions, serverKills: server.kills, crawlers, repeats: people.repeats.known })
  } finally {
    await Promise.all([server, ...crawlers].map((kept) => kept.end()))
    people.close()
    await rm(folder, { recursive: true, force: true })
  }
}

/** Changes the venues and kills reporters and senders, until everything was notified or the time is over. */
async function disturb(truth: Truth, server: Kept, crawlers: readonly Kept[]): Promise<boolean> {
  const deadline = Date.now() + (isShort ? 45_000 : 240_000)
  const over = new AbortController()
  const killing = Promise.all([
    killNowAndThen(() => crawlers[Math.floor(Math.random() * crawlers.length)]!, 1_500, over.signal),
    killNowAndThen(() => server, 5_000, over.signal),
  ])
  let flaps = 0
  while (truth.changes.length < changeCount && Date.now() < deadline) {
    truth.change()
    if (truth.changes.length % 10 === 0 && flaps++ < 8) truth.flap()
    draw(truth)
    await sleep(isShort ? 200 : 300)
  }
  over.abort()
  await killing
  while (truth.changes.some((change) => !truth.notified.has(change))) {
    if (Date.now() > deadline) return false
    draw(truth)
    await sleep(200)
  }
  return true
}

async function killNowAndThen(next: () => Kept, everyMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(everyMs * (0.5 + Math.random()), undefined, { signal }).catch(() => undefined)
    if (!signal.aborted) await next().kill()
  }
}

let last = ''
function draw({ changes, notified }: Truth): void {
  const done = changes.filter((change) => notified.has(change)).length
  const width = 40
  const full = Math.round((done / changeCount) * width)
  const text = `notified ${'█'.repeat(full)}${'░'.repeat(width - full)} ${done} of ${changes.length} changes`
  if (!process.stdout.isTTY) {
    if (changes.length % 20 === 0 && text !== last) console.log(text)
  } else process.stdout.write(`\r\u001b[2K${text}`)
  last = text
}

type Reading = Pick<Awaited<ReturnType<typeof open>>['monitor'], 'decisions'>

/** Why changes were notified, or not, by reason. */
async function countReasons(monitor: Reading): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>()
  let cursor: string | null = null
  do {
    const page: Awaited<ReturnType<Reading['decisions']>> = await monitor.decisions({ limit: 500, cursor })
    for (const { reason } of page.items) counts.set(reason, (counts.get(reason) ?? 0) + 1)
    cursor = page.cursor
  } while (cursor !== null)
  return counts
}

interface Found {
  readonly isDone: boolean
  readonly decisions: ReadonlyMap<string, number>
  readonly serverKills: number
  readonly crawlers: readonly Kept[]
  readonly repeats: number
}

function report(truth: Truth, { isDone, decisions, serverKills, crawlers, repeats }: Found): void {
  if (process.stdout.isTTY) process.stdout.write('\n')
  const all = [...truth.notified.values()]
  const ambiguous = all.filter(({ times, marked }) => times > 1 && marked >= times - 1).length
  const silent = [...truth.notified].filter(([, { times, marked }]) => times > 1 && marked < times - 1)
  const lost = truth.changes.filter((change) => !truth.notified.has(change))
  const kills = crawlers.reduce((sum, { kills }) => sum + kills, 0)
  console.log(
    `${truth.changes.length} real changes; crawlers killed ${kills} times, the server ${serverKills} times.`,
  )
  console.log(
    `notified exactly once: ${all.length - ambiguous - silent.length}, notified again and marked so: ${ambiguous}`,
  )
  console.log(`webhooks that came again under an id that people knew: ${repeats}`)
  for (const [reason, count] of decisions) console.log(`  decided ${reason.padEnd(16)} ${count}`)
  for (const change of lost) console.error(`lost: ${change}`)
  for (const [name, { times }] of silent) console.error(`notified ${times} times without a word: ${name}`)
  if (!isDone || lost.length > 0 || silent.length > 0) process.exitCode = 1
  else
    console.log('Every real change was notified; none was lost, and none was notified twice without a word.')
}

async function freePort(): Promise<number> {
  const server = createHttpServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

const [role, ...words] = process.argv.slice(2)
if (role === 'server') await beServer(words[0]!, Number(words[1]))
else if (role === 'crawler') await beCrawler(words[0]!, words[1]!, words[2]!)
else await supervise(role)
