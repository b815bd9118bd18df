import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createClient } from '../../src/http/client/index.ts'
import { expectNoViolations, openDashboard } from './dashboard.ts'

const secret = 'a-bootstrap-secret-of-more-than-32-characters'

test('without tokens the page opens directly, asks no other host and logs no error', async () => {
  await using dashboard = await openDashboard()
  await dashboard.visit('/')
  assert.equal(await dashboard.page.title(), 'Overview · Signalbox')
  await dashboard.page.getByRole('link', { name: 'Queues', exact: true }).waitFor()
  await expectNoViolations(dashboard.page)
})

test('each view opens by its link and by its key, and an unknown address leads home', async () => {
  await using dashboard = await openDashboard()
  const { page } = dashboard
  await dashboard.visit('/')
  const links = page.getByRole('navigation', { name: 'Views' }).getByRole('link')
  const keys = ['o', 'q', 'j', 's', 'x', 'w', 'l', 'u', 'm', 'n', 't', 'c', 'a', 'e']
  assert.equal(await links.count(), keys.length)
  for (const [nth, key] of keys.entries()) {
    const title = await links.nth(nth).locator('span').first().textContent()
    await page.keyboard.press('g')
    await page.keyboard.press(key)
    await page.getByRole('heading', { level: 1, name: title!, exact: true }).waitFor()
    assert.equal(await links.nth(nth).getAttribute('aria-current'), 'page')
  }
  await links.nth(2).click()
  await page.getByRole('heading', { level: 1, name: 'Jobs', exact: true }).waitFor()
  await dashboard.visit('/no/such?place=1')
  assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'Overview')
  assert.equal(page.url(), `${dashboard.url}/`)
})

test('the page asks for a token, explains a refused one, accepts a valid one, and forgets it at sign-out', async () => {
  await using dashboard = await openDashboard({
    server: { bootstrap: [secret] },
    token: secret,
    expected: /401/,
  })
  const { page } = dashboard
  await dashboard.visit('/jobs')
  const field = page.getByLabel('Token')
  await field.fill('not-the-token')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').getByText('rejected this token').waitFor()
  await expectNoViolations(page)
  await field.fill(secret)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor()
  await page.reload()
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor()
  await page.getByLabel('Preferences').click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You have signed out.').waitFor()
  await page.reload()
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
})

test('a revoked token leads back to the sign-in, which explains it', async () => {
  await using dashboard = await openDashboard({
    server: { bootstrap: [secret] },
    token: secret,
    expected: /401/,
  })
  const { page, client } = dashboard
  const token = await client.tokens.create({ name: 'short', scope: 'admin' })
  await dashboard.visit('/')
  await page.getByLabel('Token').fill(token.secret)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await client.tokens.revoke(token.id)
  await page.getByText('has expired or was revoked').waitFor()
})

test('a user with a read token sees everything, and every changing button is disabled', async () => {
  await using dashboard = await openDashboard({
    server: { bootstrap: [secret] },
    token: secret,
    expected: /401/,
  })
  const { page, client } = dashboard
  await client.jobs.add('mail')
  const token = await client.tokens.create({ name: 'eyes', scope: 'read' })
  await dashboard.visit('/jobs')
  await page.getByLabel('Token').fill(token.secret)
  await page.keyboard.press('Enter')
  await page.getByText('Read-only').waitFor()
  await page.getByRole('cell', { name: 'mail' }).waitFor()
  const retry = page.getByRole('button', { name: 'Retry' })
  assert.equal(await retry.getAttribute('aria-disabled'), 'true')
  assert.match((await retry.getAttribute('title'))!, /needs a token with the scope "admin"/)
  await retry.click({ force: true })
  assert.equal(await page.getByRole('dialog').count(), 0)
})

test('theme and language can be chosen, apply at once, and are kept', async () => {
  await using dashboard = await openDashboard({ context: { colorScheme: 'light' } })
  const { page } = dashboard
  await dashboard.visit('/')
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
  const light = await ground()
  await page.getByLabel('Preferences').click()
  await page.getByLabel('Theme').selectOption('dark')
  assert.notEqual(await ground(), light)
  await page.getByLabel('Language').selectOption('zh')
  await page.getByRole('heading', { level: 1, name: '总览' }).waitFor()
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh-CN')
  await page.reload()
  await page.getByRole('heading', { level: 1, name: '总览' }).waitFor()
  assert.notEqual(await ground(), light)
  await expectNoViolations(page)
  await page.keyboard.press('t')
  assert.equal(await ground(), light)
})

test('a browser with Chinese as language gets the page in Chinese', async () => {
  await using dashboard = await openDashboard({ context: { locale: 'zh-CN', colorScheme: 'dark' } })
  await dashboard.visit('/jobs')
  await dashboard.page.getByRole('heading', { level: 1, name: '作业' }).waitFor()
  await expectNoViolations(dashboard.page)
})

test('the keyboard help opens, lists the keys, and returns the focus when it closes', async () => {
  await using dashboard = await openDashboard()
  const { page } = dashboard
  await dashboard.visit('/')
  await page.keyboard.press('/')
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('type')), 'search')
  await page.keyboard.type('?')
  assert.equal(await page.getByRole('dialog').count(), 0)
  await page.keyboard.press('Escape')
  await page.getByRole('link', { name: 'Locks' }).focus()
  await page.keyboard.press('?')
  const help = page.getByRole('dialog', { name: 'Keyboard' })
  await help.getByText('pause or resume live updates').waitFor()
  await expectNoViolations(page)
  await page.keyboard.press('Escape')
  await help.waitFor({ state: 'detached' })
  assert.match((await page.evaluate(() => document.activeElement?.textContent)) ?? '', /Locks/)
})

test('the page shows that its server is gone, and continues when the server is back', async () => {
  await using dashboard = await openDashboard({ expected: /ERR_|503|Failed to load/ })
  const { page } = dashboard
  await dashboard.visit('/jobs')
  let isGone = true
  await page.route('**/v1/**', (route) => (isGone ? route.abort('connectionrefused') : route.fallback()))
  await page.keyboard.press('r')
  await page.getByText('has not answered since').waitFor()
  await page.getByRole('button', { name: 'Disconnected' }).waitFor()
  // Once for the page, and with the code of what really is the matter.
  assert.equal(await page.getByRole('alert').count(), 1)
  await page.getByRole('alert').getByText('Code: server_unreachable').waitFor()
  await dashboard.client.jobs.add('after-the-storm')
  isGone = false
  await page.getByText('has not answered since').waitFor({ state: 'detached' })
  await page.getByText('The server is back.').waitFor()
  await page.getByRole('cell', { name: 'after-the-storm' }).waitFor()
})

test('an action without an answer shows an unknown outcome, with the same code as the banner', async () => {
  await using dashboard = await openDashboard({ expected: /ERR_|Failed to load/ })
  const { page } = dashboard
  const { id } = await dashboard.client.jobs.add('mail')
  await dashboard.visit(`/job?id=${id}`)
  await page.getByRole('button', { name: 'Cancel job' }).click()
  await page.route('**/v1/**', (route) => route.abort('connectionrefused'))
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Cancel job' }).click()
  await dialog.getByText('may or may not have been carried out').waitFor()
  await dialog.getByText('Code: server_unreachable').waitFor()
})

test('a server whose database is away is not shown as gone', async () => {
  await using dashboard = await openDashboard({ expected: /503/ })
  const { page } = dashboard
  await dashboard.visit('/jobs')
  const problem = {
    type: 'about:blank',
    title: 'Away',
    status: 503,
    code: 'store_unavailable',
    detail: 'Away.',
  }
  const away = { status: 503, contentType: 'application/problem+json', body: JSON.stringify(problem) }
  await page.route('**/v1/**', (route) => route.fulfill(away))
  await page.keyboard.press('r')
  await page.getByText('The server is up, but its database has not answered since').waitFor()
  await page.getByText('Code: store_unavailable').waitFor()
  assert.equal(await page.getByRole('alert').count(), 1)
})

test('a user with a work token retries and cancels on the page of a job, and cannot delete it', async () => {
  await using dashboard = await openDashboard({
    server: { bootstrap: [secret] },
    token: secret,
    expected: /401/,
  })
  const { page, client } = dashboard
  const { id } = await client.jobs.add('mail')
  const token = await client.tokens.create({ name: 'hands', scope: 'work' })
  await dashboard.visit(`/job?id=${id}`)
  await page.getByLabel('Token').fill(token.secret)
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Cancel job' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel job' }).click()
  await page.getByText('cancelled').first().waitFor()
  await page.getByRole('button', { name: 'Retry' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Retry' }).click()
  await page.getByText('ready').first().waitFor()
  const remove = page.getByRole('button', { name: 'Delete' })
  assert.match((await remove.getAttribute('title'))!, /needs a token with the scope "admin"/)
})

test('a stream that a proxy cuts does not show the server as gone', async () => {
  await using dashboard = await openDashboard({ expected: /ERR_/ })
  const { page } = dashboard
  let cuts = 0
  await page.route('**/v1/events', (route) => {
    cuts++
    return route.abort('connectionreset')
  })
  await dashboard.visit('/')
  while (cuts < 2) await page.waitForRequest('**/v1/events')
  assert.equal(await page.getByRole('alert').count(), 0)
  await page.getByRole('button', { name: 'Live' }).waitFor()
})

test('a view that failed to load while the server was gone appears when it is back', async () => {
  await using dashboard = await openDashboard({ expected: /ERR_|Failed to|Unable to preload/ })
  const { page } = dashboard
  await dashboard.visit('/')
  await page.route(/\/(v1|assets)\//, (route) => route.abort('connectionrefused'))
  await page.keyboard.press('g')
  await page.keyboard.press('l')
  await page.getByText('This view failed to load').waitFor()
  await page.getByText('has not answered since').waitFor()
  await page.unroute(/\/(v1|assets)\//)
  await page.getByRole('button', { name: 'Retry now' }).click()
  await page.getByRole('heading', { level: 1, name: 'Locks' }).waitFor()
})

test('a page older than its server says so, and reloads', async () => {
  await using dashboard = await openDashboard()
  const { page } = dashboard
  await dashboard.visit('/')
  await page.route('**/v1/me', async (route) => {
    const answer = await (await route.fetch()).json()
    await route.fulfill({ json: { ...answer, server: { ...answer.server, version: '99.0.0' } } })
  })
  // Older than a second, so that coming back to the tab asks again.
  await page.waitForTimeout(1_100)
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange', { bubbles: true })))
  const banner = page.getByRole('status').filter({ hasText: 'upgraded from' })
  await banner.getByText('to 99.0.0').waitFor()
  await expectNoViolations(page)
  await page.unroute('**/v1/me')
  await banner.getByRole('button', { name: 'Reload the page' }).click()
  await banner.waitFor({ state: 'detached' })
})

test('new jobs appear on their own, except while the user has paused', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  // The reader's clock may be wrong; what is shown goes by the server's.
  await page.clock.install({ time: Date.now() - 3 * 3_600_000 })
  await dashboard.visit('/jobs')
  await page.getByText('No jobs in this namespace yet').waitFor()
  await client.jobs.add('first')
  await page.getByRole('cell', { name: 'first' }).waitFor()
  assert.doesNotMatch((await page.getByRole('row', { name: 'first' }).textContent())!, /hour/)
  await page.getByRole('button', { name: 'Live' }).click()
  await page.getByRole('button', { name: 'Paused' }).waitFor()
  await client.jobs.add('second')
  const asked: string[] = []
  page.on('request', (request) => asked.push(request.url()))
  // Much longer than a poll takes to come; nothing may.
  await page.clock.fastForward(60_000)
  await page.evaluate(() => fetch('livez'))
  assert.deepEqual(asked, [`${dashboard.url}/livez`])
  await page.getByRole('button', { name: 'Paused' }).click()
  await page.getByRole('cell', { name: 'second', exact: true }).waitFor()
})

test('a user with access to another namespace can enter it and sees its jobs', async () => {
  await using dashboard = await openDashboard()
  const { page, url } = dashboard
  using elsewhere = createClient(url, { namespace: 'eu' })
  await elsewhere.jobs.add('bonjour')
  await dashboard.visit('/jobs')
  await page.getByLabel('Namespace').selectOption('eu')
  await page.getByRole('cell', { name: 'bonjour' }).waitFor()
  await page.getByLabel('Namespace').selectOption('default')
  await page.getByText('No jobs in this namespace yet').waitFor()
})

test('on a phone the views are behind a button, and nothing is wider than the page', async () => {
  await using dashboard = await openDashboard({ context: { viewport: { width: 390, height: 800 } } })
  const { page, client } = dashboard
  await client.jobs.add('mail', {}, { queue: 'a-queue-with-a-rather-long-name-for-a-phone' })
  const expectToFit = async () => {
    const spill = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    assert.ok(spill <= 0, `${page.url()} is ${spill} px too wide`)
  }
  await dashboard.visit('/')
  await page.getByRole('link', { name: 'a-queue-with-a-rather-long-name-for-a-phone' }).waitFor()
  await expectToFit()
  assert.equal(await page.getByRole('link', { name: 'Jobs', exact: true }).isVisible(), false)
  await page.getByRole('button', { name: 'Menu' }).click()
  await page.getByRole('link', { name: 'Jobs', exact: true }).click()
  await page.getByRole('cell', { name: 'mail' }).waitFor()
  await expectToFit()
  await expectNoViolations(page)
})
