import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { test } from 'vitest'
import { startReceiver } from '../support/robots/index.ts'
import { expectNoViolations, openDashboard } from './dashboard.ts'

test('an empty overview shows how to add the first job, and the first load is small', async () => {
  await using dashboard = await openDashboard({ expected: /ERR_/ })
  const { page, url } = dashboard
  const scripts = new Set<string>()
  page.on('response', (response) => {
    const { pathname } = new URL(response.url())
    if (pathname.endsWith('.js')) scripts.add(pathname)
  })
  await dashboard.visit('/')
  await page.getByText('No jobs yet').waitFor()
  await page.getByText('Nothing needs attention').waitFor()
  const command = await page.locator('pre').textContent()
  assert.ok(command!.includes(`${url}/v1/jobs`))
  await expectNoViolations(page)
  const built = new URL('../../dist/dashboard/', import.meta.url)
  const total = [...scripts].reduce((sum, path) => sum + statSync(new URL(`.${path}.gz`, built)).size, 0)
  assert.ok(total > 50_000 && total < 150_000, `${total} bytes of script`)
  // While the server does not answer, the page must not say that all is well.
  await page.route('**/v1/**', (route) => route.abort('connectionrefused'))
  await page.keyboard.press('r')
  await page.getByText('It retries automatically').first().waitFor()
  await page.getByText('Nothing needs attention').waitFor({ state: 'detached' })
  await page.keyboard.press('p')
  await page.getByText('It does not retry while live updates are paused').waitFor()
})

test('the overview shows problems with links first, then numbers, charts with words, and queues', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await client.jobs.add('mail', {}, { queue: 'mail', maxAttempts: 1 })
  const [job] = await client.jobs.claim({ queues: ['mail'] })
  await client.jobs.nack(job!, { error: 'the relay is away' })
  await client.jobs.addMany([
    { kind: 'a', queue: 'images' },
    { kind: 'b', queue: 'images' },
  ])
  await client.jobs.pause('images')
  await dashboard.visit('/')
  const lines = page.locator('.problems li')
  await lines.nth(1).waitFor()
  await lines.nth(0).getByText('1 dead job in mail, the newest: the relay is away').waitFor()
  assert.match((await lines.nth(1).textContent())!, /images is paused, 2 jobs are waiting/)
  const chart = page.getByRole('img', { name: /^Jobs per second/ })
  await chart.locator('canvas').waitFor({ state: 'attached' })
  await page.getByRole('row', { name: /images.*paused/ }).waitFor()
  await expectNoViolations(page)
  await lines.nth(0).getByRole('link').click()
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor()
  assert.equal(new URL(page.url()).search, '?state=dead&queue=mail')
  await page.getByText('the relay is away').filter({ visible: true }).waitFor()
})

test('of many problems the first of each kind is shown, and a button shows more', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  const jobs = Array.from({ length: 10 }, (_, nth) => ({ kind: 'mail', queue: `q${nth}` }))
  await client.jobs.addMany(jobs)
  for (const { queue } of jobs) await client.jobs.pause(queue)
  const name = 'n'.repeat(191)
  await client.jobs.add('mail', {}, { queue: name, maxAttempts: 1 })
  const [job] = await client.jobs.claim({ queues: [name] })
  await client.jobs.nack(job!, { error: 'the relay is away' })
  await dashboard.visit('/')
  const lines = page.locator('.problems li')
  await lines.nth(7).waitFor()
  assert.equal(await lines.count(), 8)
  // A long name is short in the sentence, and whole in the title.
  await lines
    .filter({ hasText: 'dead job in nnnn' })
    .and(page.locator(`[title="${name}"]`))
    .waitFor()
  assert.equal(await page.getByText(name).count(), 0)
  await expectNoViolations(page)
  await page.getByRole('button', { name: 'Show 3 more of 11' }).click()
  await lines.nth(10).waitFor()
})

test('dead notifications are a problem with the name of their subscription and a link to their list', async () => {
  await using receiver = await startReceiver()
  receiver.misbehave('500')
  await using dashboard = await openDashboard({ box: { allowPrivate: ['127.0.0.0/8'] } })
  const { page, client } = dashboard
  const channel = { type: 'webhook', url: receiver.url, secret: receiver.secret } as const
  await client.monitor.subscribe({ name: 'front desk', notifyNew: true, maxRetries: 0, channel })
  const venues = [{ venueId: 'court-1', state: { free: 2 } }]
  const place = { source: 'booking', timeSlot: '18:00' }
  await client.monitor.report({ taskId: 't1', ...place, observedAt: Date.now(), venues })
  await dashboard.visit('/')
  const line = page.locator('.problems li').filter({ hasText: 'front desk' })
  await line.getByText(/^1 dead notification of subscription front desk, the newest: .*500/).waitFor()
  await expectNoViolations(page)
  await line.getByRole('link').click()
  await page.getByRole('row', { name: /court-1.*front desk/ }).waitFor()
  assert.equal(new URL(page.url()).search, '?part=notifications&status=dead')
})

test('while the server counts very many jobs, the overview shows that instead of no jobs', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await client.jobs.add('mail', {}, { queue: 'mail' })
  let isCounted = false
  await page.route(/\/v1\/(overview|queues)/, async (route) => {
    const response = await route.fetch()
    const uncounted = { queues: [], items: [], counting: true }
    await route.fulfill({ json: { ...(await response.json()), ...(isCounted ? {} : uncounted) } })
  })
  await dashboard.visit('/')
  await page.getByText('Counting jobs…').waitFor()
  await page.getByRole('heading', { name: 'Health' }).waitFor()
  assert.equal(await page.getByText(/No jobs yet|Nothing needs attention/).count(), 0)
  await page.keyboard.press('g')
  await page.keyboard.press('q')
  await page.getByText('Counting jobs…').waitFor()
  assert.equal(await page.getByText('No queues yet').count(), 0)
  isCounted = true
  await page.getByRole('row', { name: /mail/ }).waitFor()
  await page.goBack()
  await page.getByRole('row', { name: /mail/ }).waitFor()
  await page.getByText('Nothing needs attention').waitFor()
})

test('the overview works in dark mode and in Chinese', async () => {
  await using dashboard = await openDashboard({ context: { locale: 'zh-CN', colorScheme: 'dark' } })
  const { page, client } = dashboard
  await client.jobs.add('mail', {}, { queue: 'mail' })
  await client.jobs.pause('mail')
  await dashboard.visit('/')
  await page.getByText('mail 已暂停，1 个作业在等待').waitFor()
  await page.locator('canvas').first().waitFor({ state: 'attached' })
  await expectNoViolations(page)
})
