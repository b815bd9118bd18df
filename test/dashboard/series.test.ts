import assert from 'node:assert/strict'
import { test } from 'vitest'
import { expectNoViolations, openDashboard } from './dashboard.ts'

test('charts show the period of the address, for all queues and for one', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await client.jobs.add('mail', {}, { queue: 'mail' })
  await dashboard.visit('/')
  await page.locator('.plot canvas').nth(3).waitFor({ state: 'attached' })
  const asked = page.waitForRequest((request) => {
    const { pathname, searchParams } = new URL(request.url())
    const spanMs = Date.now() - Number(searchParams.get('from'))
    return (
      pathname === '/v1/metrics/series' && !searchParams.has('by') && Math.abs(spanMs / 86_400_000 - 7) < 0.1
    )
  })
  await page.getByLabel('Time range').selectOption('7d')
  await asked
  assert.equal(new URL(page.url()).search, '?range=7d')
  await page.reload()
  await page.locator('.plot canvas').nth(3).waitFor({ state: 'attached' })
  assert.equal(await page.getByLabel('Time range').inputValue(), '7d')
  const options = await page.getByLabel('Time range').locator('option').allTextContents()
  assert.deepEqual([options[0], options.at(-1)], ['Last 15 minutes', 'Last 90 days'])
  await expectNoViolations(page)

  const ofQueue = page.waitForRequest((request) => /series\?.*queue=mail/.test(request.url()))
  await dashboard.visit('/queue?name=mail')
  await ofQueue
  await page.locator('.plot canvas').nth(3).waitFor({ state: 'attached' })
  await expectNoViolations(page)
})

test('a queue that a library process emptied stays listed with its last activity', async () => {
  await using dashboard = await openDashboard()
  const { page, client, stage } = dashboard
  const worker = stage.box.jobs.worker({ queues: ['mail'], handlers: { mail: () => undefined } })
  const completed = worker.once('completed')
  await worker.start()
  await stage.box.jobs.add('mail', {}, { queue: 'mail' })
  await completed
  // Counts are written every ten seconds.
  for (let sum = 0; sum === 0; ) {
    const { items } = await client.metrics.series()
    sum = items[0]!.total.completed
    if (sum === 0) await new Promise((resolve) => setTimeout(resolve, 200))
  }
  await worker.stop()
  await dashboard.visit('/queues')
  await page.getByRole('row', { name: /^Select mail mail 0 0 .*(ago|now)/ }).waitFor()
  await dashboard.visit('/')
  await page.getByRole('row', { name: /^mail 0 0 / }).waitFor()
  assert.equal(await page.getByText('No jobs yet').count(), 0)
})

test('a queue that is behind shows its cause and links to its workers', async () => {
  await using dashboard = await openDashboard()
  const { page, client, stage } = dashboard
  await client.jobs.add('mail', {}, { queue: 'mail' })
  let kind = 'queue_behind'
  await page.route(/\/v1\/overview/, async (route) => {
    const response = await route.fetch()
    const since = Date.now() - 420_000
    const detail = kind === 'no_worker' ? 'Start one.' : null
    const behind = { kind, subject: 'mail', count: 9_091, since, detail }
    await route.fulfill({ json: { ...(await response.json()), problems: [behind] } })
  })
  await dashboard.visit('/')
  const line = page.locator('.problems li')
  await line.getByText(/^mail: 9,091 ready, the oldest has waited 7 min.*, no live worker takes it/).waitFor()
  await expectNoViolations(page)
  const worker = stage.box.jobs.worker({
    queues: ['mail'],
    workerId: 'mailer',
    handlers: { other: () => undefined },
  })
  await worker.start()
  await line.getByText(/, 1 worker takes it/).waitFor()
  await line.getByRole('link', { name: 'View queue' }).waitFor()
  await client.jobs.quietWorker('mailer')
  await line.getByText(/, its 1 worker is quiet or stopping/).waitFor()
  kind = 'no_worker'
  await page.keyboard.press('r')
  await line.getByText(/^mail: .*, its 1 worker is quiet or stopping/).waitFor()
  assert.equal(await line.getByText('Start one.').count(), 0)
  await line.getByRole('link', { name: 'Workers' }).click()
  await page.getByRole('row', { name: /mailer/ }).waitFor()
  assert.equal(new URL(page.url()).search, '?queue=mail')
  await worker.stop()
})
