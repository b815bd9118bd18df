/** The documentation site, built and read in a browser. The build fails on a dead link. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createReadStream, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { chromium } from 'playwright-core'
import { inject, test } from 'vitest'
import type {} from '../dashboard/setup.ts'
import { root } from '../house/sources.ts'

const site = join(root, 'site')
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.png': 'image/png',
}

/** Serves the built site on the loopback. */
async function serveSite(): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url!, 'http://site')
    const file = join(site, pathname.endsWith('/') ? `${pathname}index.html` : decodeURIComponent(pathname))
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return response.writeHead(404).end()
    response.writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' })
    return createReadStream(file).pipe(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
  }
}

test('the documentation site builds, and its search finds "retry" without another host', async () => {
  execFileSync(process.execPath, [join(root, 'tools/site.ts')], { cwd: root, stdio: 'pipe' })
  await using served = await serveSite()
  const browser = await chromium.connect(inject('browser'))
  const page = await browser.newPage()
  const elsewhere: string[] = []
  page.on('request', (request) => {
    if (!request.url().startsWith(served.url)) elsewhere.push(request.url())
  })
  await page.goto(`${served.url}/`)
  await page.getByRole('button', { name: 'Search' }).first().click()
  await page.locator('#localsearch-input').fill('retry')
  const results = page.locator('#localsearch-list a')
  await results.first().waitFor()
  const titles = await results.allInnerTexts()
  assert.ok(
    titles.some((title) => title.includes('Retries and dead letters')),
    titles.join('\n'),
  )
  await results.filter({ hasText: 'Retries and dead letters' }).first().click()
  await page.getByRole('heading', { level: 1, name: 'Retries and dead letters' }).waitFor()
  assert.deepEqual(elsewhere, [])
  await browser.close()
})
