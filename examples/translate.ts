/**
 * Speech in one language becomes speech in another: heard (asr), translated (nmt) and spoken (tts) by twelve processes
 * that can each do a part of it, for some languages. Some conversations are three tasks in a chain, others are one task
 * that takes a slot of all three services on one node. While they flow, nodes are killed with -9 in the middle of a
 * task, drained, and added. At the end stands a proof, from the store and from what the nodes counted themselves: every
 * task was done, and its end counted, exactly once. How the work was spread over the nodes is drawn below it.
 *
 *   node examples/translate.ts                       on a temporary SQLite file
 *   node examples/translate.ts postgres://…          or on any other store
 *   node examples/translate.ts --json                for machines
 *
 * It checks itself: exit code 1 if a task was lost, was wrong, or ended twice. An idle machine needs about ten seconds. A
 * busy one is slower and may take its time: the example gives up when nothing has happened for 30 seconds, and after four
 * minutes in any case.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { enableCompileCache, flushCompileCache } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { Task } from 'signalbox/dispatch'

/** All on one store: nodes connect to any of them, and tasks come in at any of them. */
const serverCount = 2
const conversationCount = 72
/** Every fourth article is one task on one node. */
const wholeEvery = 4
const talkingAtOnce = 24
/** A fleet that is stuck shows nothing for so long; one that is only slow goes on. */
const patienceMs = 30_000
const limitMs = 240_000

const phrases = [
  { en: 'good morning', zh: '早上好', es: 'buenos días', de: 'guten Morgen' },
  { en: 'thank you', zh: '谢谢', es: 'gracias', de: 'danke' },
  {
    en: 'where is the station?',
    zh: '车站在哪里？',
    es: '¿dónde está la estación?',
    de: 'wo ist der Bahnhof?',
  },
  { en: 'see you tomorrow', zh: '明天见', es: 'hasta mañana', de: 'bis morgen' },
] as const
type Language = keyof (typeof phrases)[number]

const pairs = ['zh>en', 'en>zh', 'es>en', 'en>es', 'de>en', 'en>de'] as const
const allLanguages: readonly Language[] = ['en', 'zh', 'es', 'de']

/** What a node can do. */
interface Offer {
  readonly nodeId: string
  /** Slots of each service. */
  readonly slots: number
  readonly hears?: readonly Language[]
  readonly translates?: readonly string[]
  readonly speaks?: readonly Language[]
}

const fleet: readonly Offer[] = [
  { nodeId: 'ear-1', slots: 3, hears: ['zh', 'en'] },
  { nodeId: 'ear-2', slots: 3, hears: ['es', 'en'] },
  { nodeId: 'ear-3', slots: 3, hears: ['de', 'zh'] },
  { nodeId: 'ear-4', slots: 2, hears: ['es', 'de'] },
  { nodeId: 'brain-1', slots: 3, translates: ['zh>en', 'en>zh'] },
  { nodeId: 'brain-2', slots: 3, translates: ['es>en', 'en>es'] },
  { nodeId: 'brain-3', slots: 3, translates: ['de>en', 'en>de'] },
  { nodeId: 'voice-1', slots: 3, speaks: ['en', 'zh'] },
  { nodeId: 'voice-2', slots: 3, speaks: ['es', 'de'] },
  studio('studio-1', ['en', 'zh']),
  studio('studio-2', ['en', 'es']),
  studio('studio-3', ['en', 'de']),
]
const added: readonly Offer[] = [
  studio('studio-4', allLanguages),
  { nodeId: 'brain-4', slots: 3, translates: pairs },
]

/** One that does all of it. */
function studio(nodeId: string, languages: readonly Language[]): Offer {
  const translates = pairs.filter((pair) =>
    pair.split('>').every((language) => languages.includes(language as Language)),
  )
  return { nodeId, slots: 2, hears: languages, translates, speaks: languages }
}

function servicesOf({ slots, hears, translates, speaks }: Offer) {
  return [
    { name: 'asr', slots, tags: { language: hears } },
    { name: 'nmt', slots, tags: { pair: translates } },
    { name: 'tts', slots, tags: { language: speaks } },
  ].filter(({ tags }) => Object.values(tags)[0] !== undefined) as {
    readonly name: 'asr' | 'nmt' | 'tts'
    readonly slots: number
    readonly tags: Record<string, readonly string[]>
  }[]
}

/** What a node is given: which steps, of what. A sound is a language and the number of a phrase. */
interface Speech {
  readonly steps: readonly ('asr' | 'nmt' | 'tts')[]
  readonly said: string
  readonly from: Language
  readonly to: Language
}

/** The work of a node, were it real. */
async function perform(offer: Offer, speech: Speech, signal: AbortSignal): Promise<string> {
  const { from, to } = speech
  let { said } = speech
  for (const step of speech.steps) {
    await sleep(30 + Math.random() * 90, undefined, { signal })
    if (step === 'asr') {
      must(offer.hears?.includes(from), `${offer.nodeId} does not hear ${from}`)
      said = phrases[Number(said.split(':')[1])]![from]
    } else if (step === 'nmt') {
      must(offer.translates?.includes(`${from}>${to}`), `${offer.nodeId} does not translate ${from}>${to}`)
      said = phrases.find((phrase) => phrase[from] === said)![to]
    } else {
      must(offer.speaks?.includes(to), `${offer.nodeId} does not speak ${to}`)
      said = `${to}:${phrases.findIndex((phrase) => phrase[to] === said)}`
    }
  }
  return said
}

function must(holds: boolean | undefined, otherwise: string): void {
  if (!holds) throw Object.assign(new Error(otherwise), { code: 'wrong_node', retryable: false })
}

/** A server: it keeps the tasks and gives them to nodes. */
async function beServer(url: string): Promise<void> {
  const { open } = await import('signalbox')
  const { createServer } = await import('signalbox/server')
  flushCompileCache()
  const stopped = once(process, 'SIGTERM')
  // A node whose connection breaks has so long to come back before its tasks go to others.
  await using box = await open(url, { migrate: true, dispatch: { closedGraceMs: 300, pollMs: 200 } })
  await using server = createServer({ box, port: 0 })
  say({ ready: (await server.listen()).url })
  await stopped
}

/** A node: it does what it is given, and tells what it begins and what a server has confirmed. */
async function beNode(urls: readonly string[], offer: Offer): Promise<void> {
  const { connectNode } = await import('signalbox/client')
  const stopped = once(process, 'SIGTERM')
  await using node = await connectNode(urls, {
    nodeId: offer.nodeId,
    services: servicesOf(offer),
    onTask({ taskId, payload }, { signal }) {
      say({ begun: taskId })
      return perform(offer, payload as Speech, signal)
    },
  })
  node.events.on('task', ({ taskId, status }) => {
    if (status === 'settled') say({ settled: taskId })
  })
  say({ ready: offer.nodeId })
  await stopped
  await node.drain()
}

/** What the processes tell the one that started them. */
interface News {
  readonly ready?: string
  readonly begun?: string
  readonly settled?: string
}

function say(news: News): void {
  process.stdout.write(`${JSON.stringify(news)}\n`)
}

/** A process of ours. It ends with us: its standard input closes then. */
class Child {
  readonly #process: ChildProcess
  readonly ended: Promise<unknown>
  readonly ready: Promise<string>

  constructor(args: readonly string[], onNews: (news: News) => void, onEnded: () => void = () => undefined) {
    this.#process = spawn(process.execPath, ['--conditions=source', import.meta.filename, ...args], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    this.ready = promise
    this.ended = once(this.#process, 'close').then(() => {
      reject(new Error(`${args[0]} ended too soon`))
      onEnded()
    })
    // Waiters learn of it; waiting is optional.
    promise.catch(() => undefined)
    createInterface({ input: this.#process.stdout! }).on('line', (line) => {
      const news = JSON.parse(line) as News
      if (news.ready !== undefined) resolve(news.ready)
      onNews(news)
    })
  }

  kill(signal: 'SIGTERM' | 'SIGKILL'): Promise<unknown> {
    this.#process.kill(signal)
    return this.ended
  }
}

type Fate = 'works' | 'killed' | 'killed, came again' | 'drained' | 'left' | 'added'

/** A deadline that every sign of progress moves, up to a last one. */
class Patience implements Disposable {
  readonly #controller = new AbortController()
  readonly #last = AbortSignal.timeout(limitMs)
  readonly #timer = setTimeout(() => this.#controller.abort(), patienceMs).unref()
  readonly signal = AbortSignal.any([this.#controller.signal, this.#last])

  progressed(): void {
    this.#timer.refresh()
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
  }
}

/** The nodes, and what they told. */
class Fleet {
  readonly #onProgress: () => void
  readonly #children = new Map<string, Child>()
  readonly #doomed = new Map<string, () => void>()
  /** The servers that they may connect to. */
  readonly urls: string[] = []
  readonly offers = new Map<string, Offer>()
  readonly fates = new Map<string, Fate>()
  /** Tasks that nodes began, and whose end was confirmed to them; by task, who. */
  readonly begun = new Map<string, string[]>()
  readonly settled = new Map<string, string[]>()

  constructor(onProgress: () => void) {
    this.#onProgress = onProgress
  }

  async start(offer: Offer, fate: Fate): Promise<void> {
    const { nodeId } = offer
    const child = new Child(
      ['node', JSON.stringify(this.urls), JSON.stringify(offer)],
      ({ begun, settled }) => {
        this.#onProgress()
        if (begun !== undefined) note(this.begun, begun, nodeId)
        if (settled !== undefined) note(this.settled, settled, nodeId)
        if (begun !== undefined) this.#doomed.get(nodeId)?.()
      },
      this.#onProgress,
    )
    this.#children.set(nodeId, child)
    this.offers.set(nodeId, offer)
    this.fates.set(nodeId, fate)
    await child.ready
  }

  /** Kills a node in the middle of a task: the next that it begins, if one comes soon. */
  async kill(nodeId: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#doomed.set(nodeId, resolve)
    await Promise.race([promise, sleep(1_500, undefined, { ref: false })])
    this.#doomed.delete(nodeId)
    this.fates.set(nodeId, 'killed')
    await this.#children.get(nodeId)!.kill('SIGKILL')
  }

  /** Asks a node to leave: it ends what it has. */
  async dismiss(nodeId: string): Promise<void> {
    this.fates.set(nodeId, 'left')
    await this.#children.get(nodeId)!.kill('SIGTERM')
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    await Promise.all(Array.from(this.#children.values(), (child) => child.kill(signal)))
  }
}

function note(book: Map<string, string[]>, taskId: string, nodeId: string): void {
  book.set(taskId, [...(book.get(taskId) ?? []), nodeId])
}

/** What is submitted for a conversation: the steps of each task. */
function stepsOf(number: number): readonly Speech['steps'][] {
  return number % wholeEvery === 0 ? [['asr', 'nmt', 'tts']] : [['asr'], ['nmt'], ['tts']]
}

/** What has to hold for a node to do a step. */
function termOf(step: Speech['steps'][number], { from, to }: Speech) {
  if (step === 'nmt') return { service: 'nmt', where: { pair: `${from}>${to}` } }
  return { service: step, where: { language: step === 'asr' ? from : to } }
}

class Conversations {
  readonly #signal: AbortSignal
  /** What each task must answer. */
  readonly expected = new Map<string, string>()
  overCount = 0

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  /** All of them, some at once. */
  async all(servers: readonly Speaker[], onOver: () => void): Promise<void> {
    const numbers = Array.from({ length: conversationCount }, (_, number) => number).values()
    const line = async () => {
      for (const number of numbers) {
        await this.#one(number, servers)
        this.overCount++
        onOver()
      }
    }
    await Promise.all(Array.from({ length: talkingAtOnce }, line))
  }

  async #one(number: number, servers: readonly Speaker[]): Promise<void> {
    const [from, to] = pairs[number % pairs.length]!.split('>') as [Language, Language]
    const index = number % phrases.length
    let said = `${from}:${index}`
    for (const [place, steps] of stepsOf(number).entries()) {
      this.#signal.throwIfAborted()
      const speech: Speech = { steps, said, from, to }
      const { dispatch } = servers[(number + place) % servers.length]!
      const { taskId } = await dispatch.submit({
        service: steps[0]!,
        uses: Object.fromEntries(steps.map((step) => [step, 1])),
        requires: steps.map((step) => termOf(step, speech)),
        payload: speech,
        idempotencyKey: `conversation ${number}, ${steps.join('+')}`,
      })
      const wanted = { asr: phrases[index]![from], nmt: phrases[index]![to], tts: `${to}:${index}` }
      this.expected.set(taskId, wanted[steps.at(-1)!])
      let output: unknown
      await dispatch.watch(
        taskId,
        (event) => {
          if (event.type === 'completed') output = event.output
        },
        { signal: this.#signal },
      )
      // What is missing is found at the end.
      if (output === undefined) return
      said = String(output)
    }
  }
}

type Speaker = ReturnType<typeof import('signalbox/client')['createClient']>

/** What happens to the fleet, and after which part of the conversations. */
function disturbances(nodes: Fleet, { dispatch }: Speaker): readonly [number, () => Promise<unknown>][] {
  const again = async (nodeId: string) => {
    await nodes.kill(nodeId)
    await nodes.start(nodes.offers.get(nodeId)!, 'killed, came again')
  }
  const drain = async (nodeId: string) => {
    await dispatch.drain(nodeId)
    nodes.fates.set(nodeId, 'drained')
  }
  return [
    [0.05, () => Promise.all([nodes.kill('ear-1'), nodes.kill('brain-2')])],
    [0.15, () => Promise.all(added.map((offer) => nodes.start(offer, 'added')))],
    [0.3, () => again('studio-2')],
    [0.35, () => drain('voice-1')],
    [0.45, () => nodes.dismiss('studio-3')],
    [0.55, () => again('brain-3')],
    [0.65, () => nodes.kill('voice-2')],
  ]
}

interface Found {
  readonly tasks: readonly Task[]
  readonly problems: readonly string[]
}

/** The proof: what the store says, and what the nodes counted. */
async function check(url: string, nodes: Fleet, { expected }: Conversations): Promise<Found> {
  const { open } = await import('signalbox')
  await using box = await open(url)
  const tasks: Task[] = []
  let cursor: string | null = null
  do {
    const page: Awaited<ReturnType<typeof box.dispatch.tasks>> = await box.dispatch.tasks(
      cursor === null ? { limit: 500 } : { limit: 500, cursor },
    )
    tasks.push(...page.items)
    cursor = page.cursor
  } while (cursor !== null)

  const problems: string[] = []
  const chains = Array.from({ length: conversationCount }, (_, number) => stepsOf(number).length)
  const wanted = chains.reduce((sum, count) => sum + count, 0)
  if (tasks.length !== wanted) problems.push(`${tasks.length} tasks are in the store, not ${wanted}`)
  const byId = new Map(tasks.map((task) => [task.taskId, task]))
  for (const [taskId, output] of expected) {
    const task = byId.get(taskId)
    if (task?.status !== 'completed') problems.push(`${taskId} is ${task?.status ?? 'not in the store'}`)
    else if (task.output !== output) problems.push(`${taskId} answered ${task.output}, not ${output}`)
  }
  for (const { taskId, nodeId } of tasks) {
    const [confirmed, ...others] = nodes.settled.get(taskId) ?? []
    if (!expected.has(taskId)) problems.push(`${taskId} was never submitted`)
    if (others.length > 0) problems.push(`${taskId} ended at ${[confirmed, ...others].join(' and ')}`)
    // A node that was killed may have answered and not have heard that it counted.
    const mayBeUnheard = nodes.fates.get(nodeId ?? '')?.startsWith('killed')
    if (confirmed !== nodeId && !(confirmed === undefined && mayBeUnheard))
      problems.push(`${taskId} ended at ${nodeId}, and ${confirmed ?? 'no node'} counted it`)
  }
  return { tasks, problems }
}

/** How many tasks each node did, as bars. */
function draw(nodes: Fleet, doneBy: ReadonlyMap<string, number>): void {
  const most = Math.max(1, ...doneBy.values())
  for (const [nodeId, offer] of nodes.offers) {
    const count = doneBy.get(nodeId) ?? 0
    const bar = '█'.repeat(Math.ceil((count / most) * 40)).padEnd(40, '·')
    const can = servicesOf(offer).map(({ name }) => name)
    console.log(
      `  ${nodeId.padEnd(9)} ${can.join(' ').padEnd(12)} ${bar} ${`${count}`.padStart(4)}  ${nodes.fates.get(nodeId)}`,
    )
  }
}

function report(found: Found, nodes: Fleet, begunAt: number, isJson: boolean): void {
  const { tasks, problems } = found
  const doneBy = new Map<string, number>()
  for (const { nodeId } of tasks) if (nodeId !== null) doneBy.set(nodeId, (doneBy.get(nodeId) ?? 0) + 1)
  const begunAgain = [...nodes.begun.values()].filter(({ length }) => length > 1).length
  const ms = Math.round(performance.now() - begunAt)
  const isGood = problems.length === 0
  if (!isGood) process.exitCode = 1
  if (isJson) {
    const shown = Array.from(nodes.offers, ([nodeId, offer]) => ({
      ...{ nodeId, services: servicesOf(offer).map(({ name }) => name) },
      ...{ doneCount: doneBy.get(nodeId) ?? 0, fate: nodes.fates.get(nodeId) },
    }))
    const counts = { taskCount: tasks.length, settledCount: nodes.settled.size, begunAgainCount: begunAgain }
    console.log(
      JSON.stringify({ isGood, serverCount, conversationCount, ...counts, ms, problems, nodes: shown }),
    )
    return
  }
  if (process.stdout.isTTY) process.stdout.write('\r\x1b[K')
  console.log(`${conversationCount} conversations, ${tasks.length} tasks, ${serverCount} server(s), ${ms} ms`)
  draw(nodes, doneBy)
  console.log(`begun again because a node was lost: ${begunAgain}; confirmed to nodes: ${nodes.settled.size}`)
  for (const problem of problems.slice(0, 20)) console.error(problem)
  if (isGood) console.log('Every task was done, and each end counted once.')
  else console.error(`${problems.length} things are not as they should be.`)
}

async function supervise(given: string | undefined, isJson: boolean): Promise<void> {
  const begunAt = performance.now()
  using patience = new Patience()
  const late = patience.signal
  const onProgress = () => patience.progressed()
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-translate-'))
  const url = given ?? `sqlite:${join(folder, 'signalbox.db')}`
  // A dozen processes begin at once: what is compiled here they need not compile again.
  process.env.NODE_COMPILE_CACHE = join(folder, 'compiled')
  enableCompileCache(process.env.NODE_COMPILE_CACHE)
  const { createClient } = await import('signalbox/client')
  flushCompileCache()
  const servers: Child[] = []
  const nodes = new Fleet(onProgress)
  const talk = new Conversations(late)
  try {
    // One after the other: the first makes the tables.
    for (let count = 0; count < serverCount; count++) {
      servers.push(new Child(['server', url], onProgress, onProgress))
      nodes.urls.push(await orLate(servers.at(-1)!.ready, late))
    }
    const clients = nodes.urls.map((server) => createClient(server))
    await orLate(flow(nodes, talk, clients, !isJson && process.stdout.isTTY), late)
    for (const client of clients) client.close()
    // Each node ends when the last of its tasks is confirmed.
    await orLate(nodes.end('SIGTERM'), late)
    await orLate(Promise.all(servers.map((server) => server.kill('SIGTERM'))), late)
    report(await check(url, nodes, talk), nodes, begunAt, isJson)
  } catch (error) {
    process.exitCode = 1
    const why = `${talk.overCount} of ${conversationCount} conversations are over: ${(error as Error).message}`
    if (isJson) console.log(JSON.stringify({ isGood: false, problems: [why] }))
    else console.error(why)
  } finally {
    await nodes.end('SIGKILL')
    await Promise.all(servers.map((server) => server.kill('SIGKILL')))
    await rm(folder, { recursive: true, force: true })
  }
}

/** Lets nodes and conversations begin, and disturbs them. */
async function flow(
  nodes: Fleet,
  talk: Conversations,
  servers: readonly Speaker[],
  isShown: boolean,
): Promise<void> {
  const plan = [...disturbances(nodes, servers[0]!)]
  await Promise.all(fleet.map((offer) => nodes.start(offer, 'works')))
  const underWay: Promise<unknown>[] = []
  const begin = (happening: Promise<unknown>) => {
    // Checked after all conversations; until then it is no failure.
    happening.catch(() => undefined)
    underWay.push(happening)
  }
  await talk.all(servers, () => {
    while (plan.length > 0 && talk.overCount >= plan[0]![0] * conversationCount) begin(plan.shift()![1]())
    if (isShown) process.stdout.write(`\r${talk.overCount} of ${conversationCount} conversations are over`)
  })
  await Promise.all(underWay)
}

/** Waits for it, but not for ever. */
function orLate<Value>(wanted: Promise<Value>, late: AbortSignal): Promise<Value> {
  const { promise, reject } = Promise.withResolvers<never>()
  const stop = () =>
    reject(new Error(`nothing has happened for ${patienceMs} ms, or it took longer than ${limitMs} ms`))
  if (late.aborted) stop()
  late.addEventListener('abort', stop, { once: true })
  return Promise.race([wanted, promise]).finally(() => late.removeEventListener('abort', stop))
}

/** In a checkout `signalbox` means its sources, and Node is told so when it starts. */
async function startAgain(): Promise<void> {
  const child = spawn(process.execPath, ['--conditions=source', ...process.argv.slice(1)], {
    stdio: 'inherit',
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  const [code] = (await once(child, 'close')) as [number | null]
  process.exitCode = code ?? 1
}

const [role, ...words] = process.argv.slice(2)
if (role === 'server' || role === 'node') {
  process.stdin.resume().once('end', () => process.exit(0))
  if (role === 'server') await beServer(words[0]!)
  else await beNode(JSON.parse(words[0]!), JSON.parse(words[1]!))
  process.exit(0)
} else if (!process.execArgv.includes('--conditions=source')) {
  await startAgain()
} else {
  const { values, positionals } = parseArgs({
    options: { json: { type: 'boolean', default: false } },
    allowPositionals: true,
  })
  await supervise(positionals[0], values.json)
  // What was given up may still wait for an answer.
  process.exit()
}
