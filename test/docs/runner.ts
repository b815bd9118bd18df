/**
 * Runs the blocks of one page, in order, in a separate process and folder, and reports the result of each to its
 * parent. Everything that a block started and did not end, such as a worker or a stream, ends with this process.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { open } from 'signalbox'
import { within } from '../support/deadline.ts'
import { type Addresses, setAddresses } from './addresses.ts'
import type { Block } from './blocks.ts'
import { type Ran, registered } from './prelude.ts'
import { type Offer, offerOf, printProgram } from './program.ts'
import { runScript } from './shell.ts'

/** What a runner is asked to do. */
export interface Plan {
  readonly blocks: readonly Block[]
  /** Its prelude: an absolute path. */
  readonly prelude: string
  /** Where modules are written, inside the project so that they find its packages. */
  readonly folder: string
  readonly addresses: Addresses
  readonly needsServer: boolean
}

/** The report of a block, by its line; line 0 is the prelude itself. */
export interface Report {
  readonly line: number
  readonly failure: string | undefined
}

const blockMs = 60_000

async function runPage({ blocks, prelude, folder, addresses, needsServer }: Plan): Promise<void> {
  // A block that opens a store by its address finds it as after `signalbox migrate up`. On MariaDB that takes seconds.
  if (addresses.postgres !== undefined) await migrate(addresses.postgres)
  const isOpened = blocks.some(
    ({ language, info, text }) => (language === 'sql' && info === 'mariadb') || text.includes('mysql://'),
  )
  if (addresses.mariadb !== undefined && isOpened) await migrate(addresses.mariadb)
  setAddresses({ ...addresses, ...(needsServer ? { server: await startServer() } : {}) })
  await import(pathToFileURL(prelude).href)
  const stale = [...registered.checks.keys()].filter((key) => !blocks.some((block) => block.key === key))
  if (stale.length > 0)
    await report({ line: 0, failure: `its prelude checks what is not there: ${stale.join(', ')}` })
  const offer = offerOf(prelude)
  for (const block of blocks) {
    const failure = await within(
      blockMs,
      `line ${block.line}`,
      runBlock(block, { folder, prelude, offer }),
    ).then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? (error.stack ?? error.message) : String(error)),
    )
    await report({ line: block.line, failure })
  }
}

type Expectation = ((ran: Ran) => unknown) | undefined

interface Stage {
  readonly folder: string
  readonly prelude: string
  readonly offer: Offer
}

async function runBlock(block: Block, stage: Stage): Promise<void> {
  const expectation = registered.checks.get(block.key)
  if ((block.way === 'data' || block.file !== undefined) && expectation === undefined) {
    throw new Error(`nothing looks at this block: say check('${block.key}', …) in its prelude, or mark it`)
  }
  const ends: Awaited<ReturnType<(typeof registered.begins)[number]>>[] = []
  try {
    for (const begin of registered.begins) ends.push(await begin(block))
    if (block.way === 'program' && block.file === undefined) await runProgram(block, stage, expectation)
    else {
      const ran = await run(block)
      await expectation?.(ran)
    }
  } finally {
    for (const end of ends.reverse()) await end?.()
  }
}

function replaced({ text }: Block): string {
  let current = text
  for (const [written, by] of registered.replacements) {
    if (current.includes(written)) current = current.replaceAll(written, typeof by === 'string' ? by : by())
  }
  return current
}

async function runProgram(
  block: Block,
  { folder, prelude, offer }: Stage,
  expectation: Expectation,
): Promise<void> {
  const file = join(folder, `${block.line}.${block.language}`)
  writeFileSync(file, printProgram(block, replaced(block), prelude, offer))
  using printed = listen()
  let isAtEnd = false
  registered.whenAtEnd = async (values) => {
    isAtEnd = true
    await expectation?.({ output: printed.text, values, data: block.text })
  }
  await import(pathToFileURL(file).href)
  if (!isAtEnd) throw new Error('it was left before its end')
}

async function run(block: Block): Promise<Ran> {
  const text = replaced(block)
  const ran: Ran = { output: '', values: {}, data: text }
  if (block.file !== undefined) {
    mkdirSync(dirname(block.file), { recursive: true })
    writeFileSync(block.file, text)
    return ran
  }
  switch (block.way) {
    case 'shell':
    case 'python':
      return { ...ran, output: await runScript(block, text) }
    case 'sql':
      return { ...ran, output: await (await import('./sql.ts')).runSql(block, text) }
    default:
      return block.language === 'yaml' ? ran : { ...ran, data: JSON.parse(text.replaceAll('…', '')) }
  }
}

/** What this process prints from here on. */
function listen(): Disposable & { readonly text: string } {
  const streams = [process.stdout, process.stderr]
  const writes = streams.map((stream) => stream.write)
  let text = ''
  for (const stream of streams) {
    stream.write = (chunk: string | Uint8Array) => {
      text += chunk
      return true
    }
  }
  return {
    get text() {
      return text
    },
    [Symbol.dispose]: () => {
      for (const [at, stream] of streams.entries()) stream.write = writes[at]!
    },
  }
}

async function migrate(url: string): Promise<void> {
  await (await open(url, { migrate: true })).close()
}

async function startServer(): Promise<string> {
  const box = await open('sqlite:signalbox.db', { allowPrivate: ['127.0.0.0/8'] })
  // Most pages need none, and loading it is much of what a small page takes.
  const { createServer } = await import('signalbox/server')
  const { url } = await createServer({ box, host: '127.0.0.1', port: 0 }).listen()
  return url
}

function report(reported: Report): Promise<unknown> {
  return new Promise((resolve) => process.send!(reported, resolve))
}

// The tests have ended, so no test listens any more.
process.once('disconnect', () => process.exit(1))
await runPage(JSON.parse(readFileSync(process.argv[2]!, 'utf8')))
// Whatever else is still at work has nothing more to say.
process.exit(0)
