import assert from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { expectNoViolations } from './dashboard.ts'
import { findLayoutFaults } from './layout-faults.ts'

const widths = [1440, 1024, 390] as const
const languages = ['zh', 'en'] as const
const themes = ['light', 'dark'] as const

/**
 * Looks at each address in both languages and at three widths: nothing is wider than the page, no text lies on other text or
 * leaves its cell, and text that is cut shows that it is. Colours depend neither on the language nor on the width, so axe
 * looks at the contrast of each view once in the light and once in the dark.
 */
export async function expectGoodLayout(
  page: Page,
  url: string,
  paths: readonly string[],
  { isContrastAsked = true }: { readonly isContrastAsked?: boolean } = {},
): Promise<void> {
  const faults: string[] = []
  await page.addInitScript(countRequests)
  await page.goto(url)
  await page.getByRole('heading', { level: 1 }).waitFor()
  for (const [nth, path] of paths.entries()) {
    await goTo(page, path)
    for (const language of languages) {
      await page.evaluate(speak, language)
      for (const width of widths) {
        await page.setViewportSize({ width, height: 900 })
        const found = await page.evaluate(findLayoutFaults)
        faults.push(...found.map((fault) => `${shortened(path)} at ${width} in ${language}: ${fault}`))
      }
    }
    for (const [at, theme] of (isContrastAsked ? themes : []).entries()) {
      await page.setViewportSize({ width: widths[(nth + at) % widths.length]!, height: 900 })
      await page.evaluate((one) => document.documentElement.setAttribute('data-theme', one), theme)
      await expectNoViolations(page, { rule: 'color-contrast', exclude: rowsLikeOthers }).catch(
        ({ message }) => faults.push(`${shortened(path)} in ${theme}: ${message}`),
      )
    }
  }
  assert.deepEqual(faults, [])
}

/** The first rows of a list have the colours of all. */
const rowsLikeOthers = ['tbody tr:nth-child(n+8)', 'main li:nth-child(n+8)']

function shortened(path: string): string {
  return path.length > 40 ? `${path.slice(0, 40)}…` : path
}

/** Goes there as a link of the page does, and waits until it has all that it asked for. */
async function goTo(page: Page, path: string): Promise<void> {
  await page.evaluate((href) => {
    history.pushState(null, '', href)
    window.dispatchEvent(new PopStateEvent('popstate'))
  }, path)
  // The script of a view may have to be loaded before it asks for anything.
  await page.waitForFunction(() => {
    const isThere = document.querySelector('h1') !== null && document.querySelector('main .loading') === null
    const { asking } = window as unknown as {
      readonly asking: { readonly count: number; readonly lastAt: number }
    }
    return isThere && asking.count === 0 && performance.now() - asking.lastAt > 80
  })
}

/** Counts the requests that wait for an answer; the stream of events never ends. */
function countRequests(): void {
  const asking = { count: 0, lastAt: performance.now() }
  const ask = window.fetch
  Object.assign(window, { asking })
  window.fetch = async (...request: Parameters<typeof fetch>) => {
    if (String(request[0] instanceof Request ? request[0].url : request[0]).includes('/v1/events'))
      return ask(...request)
    asking.count++
    try {
      return await ask(...request)
    } finally {
      asking.count--
      asking.lastAt = performance.now()
    }
  }
}

/** Chooses a language where a reader does. */
function speak(language: string): void {
  const choices = [...document.querySelectorAll<HTMLSelectElement>('.preferences select')]
  const choice = choices.find(({ options }) => [...options].some(({ value }) => value === language))!
  choice.value = language
  choice.dispatchEvent(new Event('change', { bubbles: true }))
}
