import assert from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { test } from 'vitest'
import { visible } from '../../dashboard/kit/text/visible.ts'
import { openDashboard } from './dashboard.ts'
import { names, seedMarkup } from './markup-seed.ts'

const secret = 'a-bootstrap-secret-of-more-than-32-characters'

test('no stored text runs, loads or becomes an element in any view', async () => {
  await using dashboard = await openDashboard({
    server: { bootstrap: [secret] },
    box: { allowPrivate: ['127.0.0.0/8'] },
    token: secret,
    // Some names are not taken everywhere: what is called so is not found.
    expected: /404/,
  })
  const { page, client, url } = dashboard
  await using seeded = await seedMarkup(client, url, secret)
  for (const [field, count] of seeded.taken) assert.ok(count >= 40, `${field} took only ${count}`)
  const happened = await watchFor(page)

  const work = ['', 'queues', 'jobs', 'schedules', 'errors']
  const lists = [...work, 'locks', 'once', 'nodes', 'tasks', 'contention', 'audit']
  const parts = ['decisions', 'notifications', 'subscriptions', 'venues', 'silences']
  for (const path of [...lists, 'settings', ...parts.map((part) => `monitor?part=${part}`)]) {
    await dashboard.visit(`/${path}`)
    await page
      .locator('main bdi:visible', { hasText: /alert\(\d/ })
      .first()
      .waitFor({ timeout: 20_000 })
      .catch((cause) => assert.fail(`/${path} shows none of them: ${cause}`))
    await expectNothing(page, path)
  }

  // Single things, all of them, from within the page.
  const query = (one: Readonly<Record<string, string>>) => new URLSearchParams(one).toString()
  const titled = names.map((name) => visible(name))
  const places = names.map((name, nth) => ({ name, title: titled[nth]! }))
  const walks = {
    queue: places.map(({ name, title }) => [`/queue?${query({ name })}`, title] as const),
    schedules: places.map(({ name, title }) => [`/schedules?${query({ name })}`, title] as const),
    locks: places.map(
      ({ name, title }) => [`/locks?${query({ operation: name, resource: name })}`, title] as const,
    ),
    monitor: places.map(
      ({ name, title }) =>
        [`/monitor?${query({ source: name, timeSlot: name, venueId: name })}`, title] as const,
    ),
    nodes: places.map(({ name }) => [`/nodes?${query({ id: name })}`, ''] as const),
    tasks: seeded.taskIds.map((id) => [`/tasks?${query({ id })}`, ''] as const),
    job: await Promise.all(
      seeded.jobIds.map(
        async (id) => [`/job?${query({ id })}`, visible((await client.jobs.find(id))!.kind)] as const,
      ),
    ),
  }
  for (const [view, steps] of Object.entries(walks)) {
    await walk(page, steps)
    await expectNothing(page, view)
  }
  assert.deepEqual(happened, [])

  // An observer would have seen it.
  await page.evaluate(() => document.querySelector('main')!.append(document.createElement('marquee')))
  await assert.rejects(expectNothing(page, 'an element of ours'), /marquee/)
})

/** Goes from one thing to the next as links do, and waits until each is shown. */
async function walk(page: Page, steps: readonly (readonly [href: string, title: string])[]): Promise<void> {
  const stuckAt = await page.evaluate(async (all) => {
    for (const [href, title] of all) {
      history.pushState(null, '', href)
      window.dispatchEvent(new PopStateEvent('popstate'))
      const isShown = () =>
        // Blanks at the ends of a name are not compared.
        document.querySelector('h1')?.textContent?.includes(title.trim()) === true &&
        document.querySelector('main .loading') === null
      const begunAt = performance.now()
      while (!isShown()) {
        if (performance.now() - begunAt > 20_000) return href
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    }
    return undefined
  }, steps)
  assert.equal(stuckAt, undefined)
}

/** Notes whatever a text could have made the browser do. */
async function watchFor(page: Page): Promise<readonly string[]> {
  const happened: string[] = []
  page.on('dialog', (dialog) => {
    happened.push(`dialog ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.context().on('page', (opened) => happened.push(`opened ${opened.url()}`))
  await page.addInitScript((token) => {
    sessionStorage.setItem('signalbox.token', token)
    const ran: string[] = []
    Object.assign(window, { ran })
    for (const name of ['alert', 'prompt', 'confirm', 'print'] as const)
      window[name] = ((text: string) => void ran.push(`${name} ${text}`)) as never
    // Elements are queried one at a time, because earlier ones may be gone.
    const used =
      /^(SCRIPT|IMG|IFRAME|OBJECT|EMBED|BASE|META|STYLE|VIDEO|SOURCE|MARQUEE|MATH|TEMPLATE|NOSCRIPT|X|SCR)$/i
    const look = (element: Element) => {
      if (used.test(element.tagName)) ran.push(`element ${element.outerHTML.slice(0, 80)}`)
      for (const { name, value } of element.attributes) {
        const isText = name === 'title' || name === 'value' || name.startsWith('aria-')
        if (/^on/i.test(name) || (!isText && /^\s*(javascript|data):/i.test(value)))
          ran.push(`attribute ${name}=${value.slice(0, 80)}`)
      }
      if (element instanceof HTMLAnchorElement && element.origin !== location.origin)
        ran.push(`link ${element.href.slice(0, 80)}`)
    }
    const seen = (changes: readonly MutationRecord[]) => {
      for (const { type, target, addedNodes } of changes) {
        if (type === 'attributes') look(target as Element)
        for (const node of addedNodes)
          if (node instanceof Element) for (const one of [node, ...node.querySelectorAll('*')]) look(one)
      }
    }
    document.addEventListener('DOMContentLoaded', () => {
      const watched = { childList: true, subtree: true, attributes: true }
      new MutationObserver(seen).observe(document.body, watched)
    })
  }, secret)
  return happened
}

async function expectNothing(page: Page, where: string): Promise<void> {
  const seen = await page.evaluate(() => (window as { readonly ran?: string[] }).ran)
  assert.deepEqual(seen, [], where)
  assert.equal(await page.evaluate(() => document.baseURI), new URL('/', page.url()).href, where)
}
