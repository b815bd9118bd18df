import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { inject } from 'vitest'
import { type Client, createClient } from '../../src/http/client/index.ts'
import type { ServerOptions } from '../../src/http/server/index.ts'
import type { OpenOptions } from '../../src/index.ts'
import { type Stage, serving } from '../http/server/stage.ts'

/** A server with a page of its dashboard, in a browser of the run, and what the page complained of. */
export interface Dashboard extends AsyncDisposable {
  readonly stage: Stage
  readonly url: string
  /** May do everything. */
  readonly client: Client
  readonly page: Page
  /** What the console and the page said of errors, but for what `expectsErrors` allows. */
  readonly complaints: string[]
  /** Goes to an address of the dashboard, and waits until its view is there. */
  visit(path: string): Promise<void>
}

export interface DashboardOptions {
  readonly server?: Omit<ServerOptions, 'box'>
  readonly database?: string
  readonly box?: OpenOptions
  readonly context?: BrowserContextOptions
  /** Complaints that belong to the test: a server that is gone is one the browser writes about. */
  readonly expected?: RegExp
  /** The token of `client`. */
  readonly token?: string
}

let connected: Promise<Browser> | undefined

/** Opens the dashboard; disposing of it throws if the page reported errors. */
export async function openDashboard(options: DashboardOptions = {}): Promise<Dashboard> {
  const { server = {}, database = 'memory:', box = {}, context = {}, expected, token } = options
  connected ??= chromium.connect(inject('browser'))
  const [browser, stage] = await Promise.all([connected, serving(server, database, box)])
  const own = await browser.newContext({
    locale: 'en-US',
    viewport: { width: 1280, height: 800 },
    // Nothing is waited for that only moves.
    reducedMotion: 'reduce',
    ...context,
  })
  const page = await own.newPage()
  page.setDefaultTimeout(45_000)
  const complaints: string[] = []
  const addProblem = (text: string) => {
    if (!expected?.test(text)) complaints.push(text)
  }
  page.on('pageerror', (error) => addProblem(String(error)))
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) addProblem(message.text())
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(stage.url)) addProblem(`asks ${request.url()}`)
  })
  const client = createClient(stage.url, token === undefined ? {} : { token })
  return {
    stage,
    url: stage.url,
    client,
    page,
    complaints,
    async visit(path) {
      await page.goto(stage.url + path)
      await page.getByRole('heading', { level: 1 }).waitFor()
    },
    async [Symbol.asyncDispose]() {
      client.close()
      await own.close()
      await stage[Symbol.asyncDispose]()
      assert.deepEqual(complaints, [], 'the page complained')
    },
  }
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface AxeResult {
  readonly violations: readonly {
    readonly id: string
    readonly help: string
    readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[]
  }[]
}

export interface AxeOptions {
  /** Only this rule. @default every rule of WCAG 2.2 AA and the best practices */
  readonly rule?: string
  /** Selectors of what it does not look at. */
  readonly exclude?: readonly string[]
}

/** Looks at the page as it is with axe. */
export async function expectNoViolations(page: Page, { rule, exclude = [] }: AxeOptions = {}): Promise<void> {
  // By the browser's developer protocol: the page's policy forbids injected scripts.
  const session = await page.context().newCDPSession(page)
  const evaluate = (expression: string) =>
    session.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true })
  // It is half a megabyte, and stays until the page is reloaded.
  if ((await evaluate('typeof axe')).result.value === 'undefined') await evaluate(`${axe}; undefined`)
  const context = JSON.stringify({ exclude: exclude.map((selector) => [selector]) })
  const options = JSON.stringify({
    resultTypes: ['violations'],
    ...(rule === undefined ? {} : { runOnly: { type: 'rule', values: [rule] } }),
  })
  const { result } = await evaluate(
    `axe.run(${context}, ${options}).then(({ violations }) => ({ violations }))`,
  )
  await session.detach()
  const { violations } = result.value as AxeResult
  const reported = violations.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}\n${nodes.map((node) => `  ${node.html}\n  ${node.failureSummary}`).join('\n')}`,
  )
  assert.deepEqual(reported, [])
}
