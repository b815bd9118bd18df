import assert from 'node:assert/strict'
import { chromium, type Page } from 'playwright-core'
import { ensureDashboard } from '../../tools/dashboard.ts'
import { launchOptions } from '../dashboard/chromium.ts'

/** A real browser that goes from view to view of a dashboard and records errors. */
export interface Onlooker extends AsyncDisposable {
  /** Goes to the next view and waits until it shows something. */
  look(): Promise<void>
  readonly lookCount: number
  readonly complaints: readonly string[]
}

const waitMs = 60_000

export async function openOnlooker(url: string): Promise<Onlooker> {
  await ensureDashboard(() => undefined)
  const browser = await chromium.launch(await launchOptions())
  const page = await browser.newPage({ locale: 'en-US', viewport: { width: 1360, height: 860 } })
  page.setDefaultTimeout(waitMs)
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
  })
  await page.goto(url)
  let lookCount = 0
  return {
    async look() {
      await visit(page, lookCount)
      lookCount++
    },
    get lookCount() {
      return lookCount
    },
    complaints,
    [Symbol.asyncDispose]: () => browser.close(),
  }
}

async function visit(page: Page, nth: number): Promise<void> {
  const links = page.getByRole('navigation', { name: 'Views' }).getByRole('link')
  await links.first().waitFor()
  const link = links.nth(nth % (await links.count()))
  const title = await link.locator('span').first().textContent()
  await link.click()
  await page.getByRole('heading', { level: 1, name: title!, exact: true }).waitFor()
  await page.getByText('This view could not be shown').waitFor({ state: 'detached' })
  assert.equal(await link.getAttribute('aria-current'), 'page')
}
