import assert from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { test } from 'vitest'
import { expectNoViolations, openDashboard } from './dashboard.ts'

/** The names in the first column of text, as they are shown. */
function kindsIn(page: Page): Promise<readonly string[]> {
  return page.locator('tbody tr td:nth-child(3)').allTextContents()
}

test('rows do not move under the pointer or while some are selected, and a button lets new ones in', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await client.jobs.add('first', {}, { queue: 'mail' })
  await client.jobs.add('second', {}, { queue: 'mail' })
  await dashboard.visit('/jobs?queue=mail')
  await page.getByRole('row', { name: /first/ }).hover()
  await client.jobs.addMany([
    { kind: 'third', queue: 'mail' },
    { kind: 'fourth', queue: 'mail' },
  ])
  const news = page.getByRole('button', { name: '2 new' })
  await news.waitFor()
  assert.deepEqual(await kindsIn(page), ['second', 'first'])
  await expectNoViolations(page)
  await news.click()
  await page.getByRole('row', { name: /fourth/ }).waitFor()
  assert.deepEqual(await kindsIn(page), ['fourth', 'third', 'second', 'first'])

  // Away from the table, what is selected holds it, and stays in sight when it leaves the list.
  const { items } = await client.jobs.list({ kind: 'first' })
  await page.getByLabel(`Select ${items[0]!.id}`).check()
  await page.mouse.move(5, 5)
  await client.jobs.remove([items[0]!.id])
  await client.jobs.add('fifth', {}, { queue: 'mail' })
  await page.getByRole('button', { name: '1 new · 1 gone' }).click()
  await page.getByRole('row', { name: /fifth/ }).waitFor()
  assert.deepEqual(await kindsIn(page), ['fifth', 'fourth', 'third', 'second', 'first'])
  await page.getByText('1 selected').waitFor()
  await expectNoViolations(page)
  await page.getByLabel(`Select ${items[0]!.id}`).uncheck()
  await page.mouse.move(5, 5)
  await page.getByRole('row', { name: /first/ }).waitFor({ state: 'detached' })
})

test('an emptied queue or lock stays listed, and a selected queue stays under any filter', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await client.jobs.add('mail', {}, { queue: 'mail' })
  await client.jobs.add('report', {}, { queue: 'reports' })
  const lock = { operation: 'deploy', resource: 'eu-1', node: 'ci' }
  const turn = await client.locks.acquire({ ...lock, ttlMs: '5m' })
  await dashboard.visit('/queues')
  await page.getByRole('row', { name: /mail 1 0/ }).waitFor()
  const [job] = await client.jobs.claim({ queues: ['mail'] })
  await client.jobs.ack(job!)
  await page.getByRole('row', { name: /mail 0 0/ }).waitFor()
  await page.getByLabel('Select reports').check()
  await page.getByLabel('Filter by name').fill('mail')
  await page.getByRole('row', { name: /mail/ }).waitFor()
  await page.getByRole('row', { name: /reports/ }).waitFor()

  await page.goto(new URL('/locks', page.url()).href)
  await page.locator('.locks-holder').getByText('ci').waitFor()
  const { token } = turn as { readonly token: number }
  await client.locks.release({ ...lock, token, outcome: 'success' })
  await page.getByRole('article').getByText('Not held').waitFor()
  await expectNoViolations(page)
})

test('locks and nodes are listed worst first, whatever their names', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  for (const resource of ['a', 'b', 'z'])
    await client.locks.acquire({ operation: 'pull', resource, node: 'n', ttlMs: '5m' })
  for (const node of ['w1', 'w2'])
    await client.locks.acquire({ operation: 'pull', resource: 'z', node, want: 'turn' })
  await dashboard.visit('/locks')
  await page.getByText('2 waiting').waitFor()
  const shown = () => page.locator('article h2').allTextContents()
  assert.deepEqual(await shown(), ['z', 'a', 'b'])

  // Under the pointer they stand still, and a button lets new ones in.
  await page.locator('article').first().hover()
  await client.locks.acquire({ operation: 'pull', resource: 'A', node: 'n', ttlMs: '5m' })
  const news = page.getByRole('button', { name: '1 new' })
  await news.waitFor()
  assert.deepEqual(await shown(), ['z', 'a', 'b'])
  await expectNoViolations(page)
  await news.click()
  await page.getByRole('link', { name: 'A', exact: true }).waitFor()
  assert.deepEqual(await shown(), ['z', 'A', 'a', 'b'])
})

test('a chart shows the time and the values under the pointer, and four charts form a square', async () => {
  await using dashboard = await openDashboard({ context: { viewport: { width: 1440, height: 1400 } } })
  const { page, client } = dashboard
  await client.jobs.add('mail', {}, { queue: 'mail' })
  await dashboard.visit('/')
  const plots = page.locator('.plot')
  await page.locator('.plot canvas').nth(3).waitFor({ state: 'attached' })
  const cards = page.locator('.charts > .card')
  const tops = await cards.evaluateAll((all) => all.map((one) => Math.round(one.getBoundingClientRect().top)))
  assert.deepEqual([tops[0] === tops[1], tops[2] === tops[3], tops[0]! < tops[2]!], [true, true, true])
  const tip = plots.first().locator('.chart-tip')
  // The first step has to end before there is an instant to point at.
  while (!(await tip.isVisible())) {
    await plots
      .first()
      .locator('.u-over')
      .hover({ position: { x: 200, y: 40 } })
    await plots
      .first()
      .locator('.u-over')
      .hover({ position: { x: 210, y: 40 } })
  }
  assert.match((await tip.innerText()).replaceAll('\n', ' '), /^\d\d:\d\d.* added ?[\d.]+ ?completed ?[\d.]+/)
})

test('a chart that was drawn for a wider page does not widen the page', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await client.jobs.add('mail', {}, { queue: 'mail' })
  await dashboard.visit('/')
  await page.locator('.plot canvas').nth(3).waitFor({ state: 'attached' })
  const excess = await page.evaluate(() => {
    const plots = document.querySelectorAll<HTMLElement>('.plot .uplot')
    for (const plot of plots) plot.style.width = '3000px'
    const { scrollWidth, clientWidth } = document.documentElement
    return [plots.length, scrollWidth - clientWidth]
  })
  assert.deepEqual(excess, [4, 0])
})

test('tables shorten long names, titles show them whole, and no name makes the page wider', async () => {
  const name = 'n'.repeat(191)
  for (const width of [1440, 1024, 390]) {
    await using dashboard = await openDashboard({ context: { viewport: { width, height: 900 } } })
    const { page, client } = dashboard
    await client.jobs.add(name, {}, { queue: name })
    await client.locks.acquire({ operation: name, resource: name, node: name, ttlMs: '5m' })
    await dashboard.visit('/jobs')
    const cell = page.locator('tbody td').filter({ hasText: 'nnnn' }).first()
    await cell.hover()
    assert.ok((await cell.boundingBox())!.width < 360)
    await page.locator(`td[title="${name}"]`).first().waitFor()
    for (const path of ['/', '/jobs', '/queues', '/locks']) {
      await dashboard.visit(path)
      await page.getByText(/nnnn/).filter({ visible: true }).first().waitFor()
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
      assert.ok(wider <= 0, `${path} at ${width} is ${wider} px too wide`)
    }
  }
})

test('a right-to-left name does not change the sentence around it', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await client.jobs.add('mail', {}, { queue: 'بريد 7' })
  await client.jobs.pause('بريد 7')
  await dashboard.visit('/')
  const line = page.locator('.problems li > span').filter({ hasText: 'is paused' })
  await line.waitFor()
  assert.match((await line.textContent())!, /^\u2068بريد 7\u2069 is paused/)
  // The words after the name are on its right.
  const isOrdered = await line.evaluate((element) => {
    const text = element.firstChild!
    const at = (from: number, to: number) => {
      const range = document.createRange()
      range.setStart(text, from)
      range.setEnd(text, to)
      return range.getBoundingClientRect().left
    }
    const begin = text.textContent!.indexOf('is paused')
    return at(1, 3) < at(begin, begin + 2)
  })
  assert.ok(isOrdered)
})
