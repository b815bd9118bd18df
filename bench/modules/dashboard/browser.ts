/** A Chromium for one measurement: nothing of it is in a cache, and nothing else is open in it. */
import { type Browser, chromium, type Page } from 'playwright-core'
import { launchOptions } from '../../../test/dashboard/chromium.ts'

/** Far more than anything here takes on a slow machine. */
const waitMs = 60_000

export interface Tabs extends AsyncDisposable {
  /** Opens a page with a separate cache and separate connections. */
  open(): Promise<Page>
}

/** Starts it. */
export async function openTabs(): Promise<Tabs> {
  const { executablePath, args } = await launchOptions()
  const browser: Browser = await chromium.launch({ executablePath, args })
  return {
    async open() {
      // A separate context: a browser opens at most six connections to a server for all tabs of one context.
      const context = await browser.newContext({ locale: 'en-US', viewport: { width: 1360, height: 860 } })
      const page = await context.newPage()
      page.setDefaultTimeout(waitMs)
      return page
    },
    [Symbol.asyncDispose]: () => browser.close(),
  }
}

/** Is on the overview as soon as its figures are. */
export const figures = '.figures b'
