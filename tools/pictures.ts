/**
 * `npm run pictures`: takes the pictures of the README and of docs/dashboard.md. The demo's small fleet works for five
 * minutes, so that every view has content. Then Chromium opens each view and writes a picture to docs/images.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { startDemo } from '../src/demo/index.ts'
import { type Client, createClient } from '../src/http/client/index.ts'
import { createServer } from '../src/http/server/index.ts'
import { open } from '../src/index.ts'
import { launchOptions } from '../test/dashboard/chromium.ts'
import { ensureDashboard } from './dashboard.ts'

const target = join(import.meta.dirname, '..', 'docs', 'images')
const viewport = { width: 1360, height: 860 }
const playMs = 300_000
const mostBytes = 200_000
/** The longest wait for the content of one picture. */
const waitMs = 120_000

interface Picture {
  readonly name: string
  /** The address of the view; waits until the view has content. */
  readonly at: (client: Client) => Promise<string>
  /** A selector of an element that appears with the content. */
  readonly shows: string
  /** An expression that runs in the page: whether the view shows what the picture should show. */
  readonly holds?: string
  readonly context?: BrowserContextOptions
}

const dark: BrowserContextOptions = { colorScheme: 'dark' }
const chinese: BrowserContextOptions = { locale: 'zh-CN' }

/** A lock with three waiters and the progress of its holder. The number of waiters equals the waiters drawn. */
const locks = {
  at: async () => '/locks',
  shows: '.locks-waiters li:nth-child(3)',
  holds: `/\\d%/.test(document.querySelector('.locks-holder')?.textContent) &&
    Array.from(document.querySelectorAll('article')).every((lock) => {
      const count = lock.querySelectorAll('.locks-waiters li').length
      return count === 0 || lock.textContent.includes(count + ' wait') || lock.textContent.includes(count + ' 个等待')
    })`,
} as const

/** The demo's five minutes fill a third of the charts. */
const overview = '/?range=15m'

const pictures: readonly Picture[] = [
  { name: 'overview', at: async () => overview, shows: 'canvas' },
  { name: 'overview-dark', at: async () => overview, shows: 'canvas', context: dark },
  { name: 'jobs', at: async () => '/jobs', shows: 'tbody tr:nth-child(12)' },
  { name: 'job', at: flowAt, shows: '.job-graph' },
  { ...locks, name: 'locks' },
  { ...locks, name: 'locks-zh', context: chinese },
  { name: 'monitor', at: async () => '/monitor', shows: 'tbody tr:nth-child(8)' },
  { name: 'nodes', at: async () => '/nodes', shows: 'tbody tr:nth-child(3)' },
  { name: 'contention', at: async () => '/contention', shows: 'table' },
]

await ensureDashboard((line) => console.log(line))
mkdirSync(target, { recursive: true })
const folder = mkdtempSync(join(tmpdir(), 'signalbox-pictures-'))
try {
  await using box = await open(`sqlite:${join(folder, 'demo.db')}`, {
    migrate: true,
    allowPrivate: ['127.0.0.0/8'],
  })
  await using server = createServer({ box, port: 0 })
  const { url } = await server.listen()
  await using _demo = startDemo({ box, url })
  const client = createClient(url)
  await using browser = await chromium.launch(await launchOptions())
  await client.dispatch.definePool({ name: 'eu-1', requires: [{ label: 'zone', in: ['eu-1'] }] })
  await addDead(client)
  console.log(`The demo plays for ${playMs / 1_000} s …`)
  // The charts show only times at which a page was open.
  await using viewer = await browser.newContext()
  await (await viewer.newPage()).goto(url)
  await sleep(playMs)
  for (const picture of pictures) await take(browser, client, url, picture)
  client.close()
} finally {
  rmSync(folder, { recursive: true })
}

async function take(browser: Browser, client: Client, url: string, wanted: Picture): Promise<void> {
  const { name, at, shows, holds = 'true', context = {} } = wanted
  await using own = await browser.newContext({ locale: 'en-US', viewport, ...context })
  const page = await own.newPage()
  page.setDefaultTimeout(waitMs)
  await page.goto(url + (await at(client)))
  const shown = page.locator(shows).first()
  let picture: Buffer
  do {
    await shown.waitFor()
    await settle(page)
    const clip = { x: 0, y: 0, width: viewport.width, height: await heightOf(page) }
    picture = await page.screenshot({ clip, animations: 'disabled', caret: 'hide' })
    // The element may have gone while the picture was taken.
  } while (!(await shown.isVisible()) || !(await page.evaluate<boolean>(holds)))
  const path = join(target, `${name}.png`)
  writeFileSync(path, picture)
  const bytes = picture.length
  console.log(`${name}.png: ${(bytes / 1_000).toFixed(0)} kB`)
  if (bytes > mostBytes)
    throw new Error(
      `${name}.png has ${bytes} bytes; ${mostBytes} are the most for a picture in the documentation.`,
    )
}

/** Waits for fonts and late content. */
async function settle(page: Page): Promise<void> {
  await page.evaluate('document.fonts.ready.then(() => undefined)')
  await sleep(300)
}

/** The height of the content, at most that of the viewport. */
async function heightOf(page: Page): Promise<number> {
  const bottoms = await page.evaluate<number[]>(
    `Array.from(document.querySelectorAll('main *, nav a'), (one) => one.getBoundingClientRect().bottom)`,
  )
  return Math.min(viewport.height, Math.ceil(Math.max(...bottoms)) + 32)
}

/** A running job of a flow, with a dependency and a dependent. */
async function flowAt(client: Client): Promise<string> {
  return until('a running job of a flow', async () => {
    const { items } = await client.jobs.list({ kind: 'etl.sum', state: 'running', limit: 1 })
    return items[0] && `/job?id=${items[0].id}`
  })
}

/** Adds a dead job. */
async function addDead(client: Client): Promise<void> {
  const queue = 'refunds'
  await client.jobs.add('refund.send', { order: 4_711 }, { queue, maxAttempts: 1 })
  const [job] = await client.jobs.claim({ queues: [queue] })
  await client.jobs.nack(job!, { error: { name: 'BankError', message: 'the account is closed' } })
}

async function until(what: string, look: () => Promise<string | undefined>): Promise<string> {
  for (const end = performance.now() + waitMs; performance.now() < end; await sleep(50)) {
    const found = await look()
    if (found !== undefined) return found
  }
  throw new Error(`Did not find ${what} within ${waitMs / 1_000} s.`)
}
