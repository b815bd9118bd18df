import assert from 'node:assert/strict'
import { test } from 'vitest'
import { addAlerts, createClient, isSignalboxError } from '../../src/http/client/index.ts'
import { startReceiver } from '../support/robots/index.ts'
import { type Dashboard, expectNoViolations, openDashboard } from './dashboard.ts'

/** Confirms what the dialog asks, and waits until it is done. */
async function confirm({ page }: Dashboard, title: string | RegExp, act: string): Promise<void> {
  const dialog = page.getByRole('dialog', { name: title })
  await dialog.getByRole('button', { name: act, exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
}

/** One job of the queue, dead. Answers its id. */
async function die({ client }: Dashboard, queue: string): Promise<string> {
  const { id } = await client.jobs.add('mail', { to: 'ann' }, { queue, maxAttempts: 1 })
  const [job] = await client.jobs.claim({ queues: [queue], workerId: 'worker-1' })
  assert.equal(job!.id, id)
  await client.jobs.note(job!, {
    progress: { percent: 40, note: 'page 4 of 10' },
    logs: [{ text: 'the relay is slow', level: 'warn' }],
  })
  const error = { name: 'RelayError', message: 'the relay is away', stack: 'RelayError\n    at send.ts:1' }
  await client.jobs.nack(job!, { error })
  return id
}

const place = { source: 'booking', timeSlot: '18:00' }
let tasks = 0

async function see({ client }: Dashboard, venueId: string, state: unknown): Promise<void> {
  const { status } = await client.monitor.report({
    ...{ ...place, taskId: `crawl-${++tasks}`, observedAt: Date.now() },
    venues: [{ venueId, state }],
  })
  assert.equal(status, 'processed')
}

/** In the page: the texts that their cell or the table cuts off. */
function listCut(elements: readonly Element[]): readonly string[] {
  const cut = (element: Element) =>
    [element.closest('td'), element.closest('.table')].some(
      (frame) => element.getBoundingClientRect().right > frame!.getBoundingClientRect().right + 1,
    )
  return elements.filter(cut).map(({ textContent }) => textContent)
}

test('a user finds queues, and pauses and resumes them together after a question with their number', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await dashboard.visit('/queues')
  await page.getByText('No queues yet').waitFor()
  await expectNoViolations(page)
  for (const queue of ['mail', 'images']) await client.jobs.add('x', {}, { queue })
  await page.keyboard.press('r')
  await page.getByLabel('Select mail').check()
  await page.getByLabel('Select images').check()
  await page.getByRole('button', { name: 'Pause', exact: true }).click()
  await confirm(dashboard, 'Pause 2 queues?', 'Pause')
  await page.getByRole('row', { name: /images paused/ }).waitFor()
  assert.deepEqual(
    (await client.jobs.stats()).map(({ paused }) => paused),
    [true, true],
  )
  await expectNoViolations(page)
  await page.getByRole('searchbox', { name: 'Filter by name' }).fill('imag')
  await page.getByRole('link', { name: 'mail' }).waitFor({ state: 'detached' })
  await page.getByLabel('Select images').check()
  await page.getByRole('button', { name: 'Resume', exact: true }).click()
  await confirm(dashboard, 'Resume 1 queue?', 'Resume')
  await page.getByText('paused', { exact: true }).waitFor({ state: 'detached' })
  const stats = await client.jobs.stats()
  assert.deepEqual(stats.map(({ queue, paused }) => [queue, paused]).sort(), [
    ['images', false],
    ['mail', true],
  ])
})

test('limits of a queue are set and removed, and its dead jobs are retried', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await dashboard.visit('/queue?name=nowhere')
  await page.getByText('This queue is empty').waitFor()
  await die(dashboard, 'mail')
  await dashboard.visit('/queue?name=mail')
  await page.getByRole('button', { name: 'Set limits' }).click()
  const form = page.getByRole('dialog', { name: 'Limits of mail' })
  const whole = form.getByRole('group', { name: 'Whole queue' })
  await whole.getByLabel('Maximum running').fill('many')
  await form.getByRole('button', { name: 'Save' }).click()
  await form.getByText('"many" is not a whole number of 1 or more.').waitFor()
  await whole.getByLabel('Maximum running').fill('5')
  await whole.getByLabel('Maximum starts').fill('100')
  await whole.getByLabel('per (such as 1m)').fill('1m')
  await form.getByRole('group', { name: 'Each limit key' }).getByLabel('Maximum running').fill('1')
  await expectNoViolations(page)
  await confirm(dashboard, 'Limits of mail', 'Save')
  await page.getByText('5 at once, 100 per 1 min').waitFor()
  const [limited] = await client.jobs.stats()
  assert.deepEqual(limited!.limits, {
    ...{ concurrency: 5, rate: { count: 100, perMs: 60_000 } },
    perKey: { ...limited!.limits!.perKey, concurrency: 1 },
  })
  await page.getByRole('button', { name: 'Set limits' }).click()
  for (const field of await form.getByRole('textbox').all()) await field.fill('')
  await confirm(dashboard, 'Limits of mail', 'Save')
  await page.getByText('Limits removed.').waitFor()
  assert.equal((await client.jobs.stats())[0]!.limits ?? null, null)

  await page.getByRole('button', { name: 'Retry dead jobs' }).click()
  await confirm(dashboard, 'Retry 1 dead job?', 'Retry dead jobs')
  await page.getByRole('row', { name: /ready/ }).waitFor()
  await page.getByRole('button', { name: 'Pause', exact: true }).click()
  await confirm(dashboard, 'Pause 1 queue?', 'Pause')
  await page.getByRole('button', { name: 'Resume', exact: true }).waitFor()
  await expectNoViolations(page)
  const [stats] = await client.jobs.stats()
  assert.deepEqual([stats!.dead, stats!.ready, stats!.paused], [0, 1, true])
})

test('the page of a job shows its history, and can retry, cancel and delete it', async () => {
  // The browser writes about what it does not find.
  await using dashboard = await openDashboard({ expected: /404/ })
  const { page, client } = dashboard
  await dashboard.visit('/job?id=unknown')
  await page.getByText('No such job').waitFor()
  const id = await die(dashboard, 'mail')
  await dashboard.visit(`/job?id=${id}`)
  await page.getByRole('heading', { level: 1, name: 'mail' }).waitFor()
  for (const text of ['the relay is away', 'RelayError at send.ts:1', 'the relay is slow', 'page 4 of 10'])
    await page.getByText(text).first().waitFor()
  await page.getByRole('meter', { name: '40% done in attempt 1' }).waitFor()
  assert.equal(await page.getByRole('button', { name: /^Cancel job/ }).getAttribute('aria-disabled'), 'true')
  await expectNoViolations(page)
  await page.getByRole('button', { name: 'Retry', exact: true }).click()
  await confirm(dashboard, 'Retry 1 job?', 'Retry')
  await page.locator('.facts').getByText('ready').waitFor()
  assert.equal((await client.jobs.find(id))!.state, 'ready')
  const { id: laterId } = await client.jobs.add('report', {}, { after: [id] })
  await page.keyboard.press('r')
  await page.locator('.job-graph').getByText('waiting').waitFor()
  await expectNoViolations(page)
  await page.getByRole('button', { name: 'Cancel job' }).click()
  await confirm(dashboard, 'Cancel 1 job?', 'Cancel job')
  await page.locator('.facts').getByText('cancelled').waitFor()
  assert.equal((await client.jobs.find(id))!.state, 'cancelled')
  await page.locator('.job-graph').getByRole('link').click()
  await page.getByRole('heading', { level: 1, name: 'report' }).waitFor()
  assert.equal(new URL(page.url()).searchParams.get('id'), laterId)
  await dashboard.visit(`/job?id=${id}`)
  await page.getByRole('button', { name: 'Delete' }).click()
  await confirm(dashboard, 'Delete 1 job?', 'Delete')
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor()
  assert.equal(await client.jobs.find(id), undefined)
})

test('the audit shows each action with its actor and target, and the address filters it', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await dashboard.visit('/audit')
  await page.getByText('No entries').waitFor()
  await expectNoViolations(page)
  await client.jobs.pause('mail')
  await client.jobs.resume('mail')
  await page.keyboard.press('r')
  await page.getByRole('row', { name: /this machine.*queue\.pause.*queue: mail.*done/ }).waitFor()
  await page.getByRole('row', { name: /queue\.resume/ }).waitFor()
  await page.getByLabel('Action', { exact: true }).fill('queue.pause')
  await page.keyboard.press('Enter')
  await page.getByRole('row', { name: /queue\.resume/ }).waitFor({ state: 'detached' })
  assert.equal(new URL(page.url()).search, '?action=queue.pause')
  await expectNoViolations(page)
})

test('the secret of the first token stays visible until the user closes it, and the page continues with it', async () => {
  await using dashboard = await openDashboard({ expected: /401/ })
  const { page } = dashboard
  await dashboard.visit('/settings')
  await page.getByText('No tokens', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Create token' }).click()
  const form = page.getByRole('dialog', { name: 'Create token' })
  await form.getByRole('button', { name: 'Create token' }).click()
  await form.getByText('Enter a name.').waitFor()
  await form.getByLabel('Name').fill('operators')
  await form.getByLabel('Scope').selectOption('work')
  await form.getByText('Without the scope admin').waitFor()
  await form.getByLabel('Scope').selectOption('admin')
  await expectNoViolations(page)
  // Before the page learns of its token, something else that it asks is refused.
  await page.route('**/v1/tokens', async (route) => {
    if (route.request().method() !== 'POST') return route.continue()
    const response = await route.fetch()
    const refused = page.waitForResponse((answer) => answer.status() === 401)
    await page.evaluate(() => window.dispatchEvent(new Event('visibilitychange')))
    await refused
    await route.fulfill({ response })
    await page.unroute('**/v1/tokens')
  })
  await form.getByRole('button', { name: 'Create token' }).click()
  const shown = page.getByRole('dialog', { name: 'Secret' })
  const secret = (await shown.locator('pre').textContent())!
  // The server asks for a token from now on; what is behind the dialog is asked with the new one.
  await page.getByRole('row', { name: /operators.*active/, includeHidden: true }).waitFor()
  await expectNoViolations(page)
  assert.equal(await shown.locator('pre').textContent(), secret)

  const client = createClient(dashboard.url, { token: secret })
  assert.equal((await client.overview.me()).name, 'operators')
  await client.tokens.create({ name: 'seventh', scope: 'work', nodes: ['gpu-7', 'gpu-8'] })
  await shown.getByRole('button', { name: 'Close' }).last().click()
  await shown.waitFor({ state: 'detached' })
  await page.reload()
  await page.getByRole('row', { name: /operators.*active/ }).waitFor()
  assert.equal(await page.getByText(secret).count(), 0)
  await page.getByRole('row', { name: /seventh.*gpu-7, gpu-8.*active/ }).waitFor()

  await page.getByRole('button', { name: 'Create token' }).click()
  await form.getByLabel('Name').fill('ci')
  await form.getByLabel('Valid for').fill('90d')
  await form.getByRole('button', { name: 'Create token' }).click()
  const second = (await shown.locator('pre').textContent())!
  assert.notEqual(second, secret)
  await page.keyboard.press('Escape')
  await shown.waitFor({ state: 'detached' })
  await page.getByRole('row', { name: /ci/ }).getByRole('button', { name: 'Revoke' }).click()
  await confirm(dashboard, 'Revoke 1 token?', 'Revoke')
  await page.getByRole('row', { name: /ci.*revoked/ }).waitFor()
  await expectNoViolations(page)
  const revoked = createClient(dashboard.url, { token: second, retries: 0 })
  await assert.rejects(revoked.overview.me(), (error) => isSignalboxError(error, 'unauthorized'))
  revoked.close()
  client.close()
})

test('a user with a read token sees all entries, and why the actions are disabled', async () => {
  await using dashboard = await openDashboard({
    server: { bootstrap: ['bootstrap-secret-0123456789abcdef'] },
    token: 'bootstrap-secret-0123456789abcdef',
  })
  const { page, client } = dashboard
  const { secret } = await client.tokens.create({ name: 'looker', scope: 'read' })
  await client.monitor.silence({ forMs: '1h', comment: 'at night' })
  await page.addInitScript((token) => sessionStorage.setItem('signalbox.token', token), secret)
  await dashboard.visit('/monitor?part=silences')
  const end = page.getByRole('row', { name: /at night/ }).getByRole('button', { name: /^End/ })
  assert.equal(await end.getAttribute('aria-disabled'), 'true')
  assert.match((await end.getAttribute('title'))!, /admin/)
  await expectNoViolations(page)
  await dashboard.visit('/audit')
  await page.getByText('The audit log needs a token with the scope "admin"').waitFor()
  await dashboard.visit('/settings')
  await page.getByText('Listing tokens needs the scope "admin".').waitFor()
})

test('a channel is tested and subscribed; the view shows each notification or its reason for silence', async () => {
  await using receiver = await startReceiver()
  await using dashboard = await openDashboard({ box: { allowPrivate: ['127.0.0.0/8'] } })
  const { page, client } = dashboard
  await dashboard.visit('/monitor?part=subscriptions')
  await page.getByText('No subscriptions').waitFor()
  await page.getByRole('button', { name: 'Test a channel' }).click()
  const trial = page.getByRole('dialog', { name: 'Test a channel' })
  await trial.getByLabel('Type').selectOption('webhook')
  await trial.getByLabel('Address').fill(receiver.url)
  await trial.getByLabel('Secret').fill('not-the-one-that-it-knows')
  await trial.getByRole('button', { name: 'Send a test' }).click()
  await trial.getByText('Sending failed').waitFor()
  await trial.getByLabel('Secret').fill(receiver.secret)
  await trial.getByRole('button', { name: 'Send a test' }).click()
  await trial.getByText('The provider accepted it').waitFor()
  assert.equal(receiver.messages.length, 1)
  await page.keyboard.press('Escape')

  await page.getByRole('button', { name: 'Subscribe', exact: true }).first().click()
  const form = page.getByRole('dialog', { name: 'Subscribe' })
  await form.getByRole('button', { name: 'Subscribe' }).click()
  await form.getByText('Enter a name.').waitFor()
  await form.getByLabel('Name').fill('front desk')
  await form.getByLabel('Do not repeat for').fill('1h')
  await form.getByLabel('Venue: condition').selectOption('beginsWith')
  await form.getByLabel('Venue', { exact: true }).fill('court-')
  await form.getByLabel('Type').selectOption('webhook')
  await form.getByLabel('Address').fill(receiver.url)
  await form.getByLabel('Secret').fill(receiver.secret)
  await form.getByText('Digest, throttle, flapping').click()
  await form.getByLabel('Maximum messages').fill('2')
  await form.getByLabel('within').first().fill('1h')
  await expectNoViolations(page)
  await form.getByRole('button', { name: 'Subscribe' }).click()
  await page
    .getByRole('row', { name: /front desk.*Venue begins with court-.*window 1 h.*at most 2 per 1 h/ })
    .waitFor()
  assert.equal(await page.getByText(receiver.secret).count(), 0)
  const [subscription] = await client.monitor.subscriptions()
  assert.deepEqual(
    [subscription!.match, subscription!.windowMs],
    [{ venueId: { prefix: 'court-' } }, 3_600_000],
  )

  for (const state of ['free', 'taken']) await see(dashboard, 'court-1', state)
  await receiver.waitFor(2)
  await see(dashboard, 'court-1', 'free')
  await receiver.waitFor(3)
  await see(dashboard, 'court-1', 'taken')
  await see(dashboard, 'pool', 'open')
  await see(dashboard, 'pool', 'closed')
  const parts = page.getByRole('navigation', { name: 'Sections of the monitor' })
  await parts.getByRole('link', { name: 'Decisions' }).click()
  await page.getByRole('row', { name: /court-1.*taken → free.*notified.*notified front desk/ }).waitFor()
  await page.getByRole('row', { name: /court-1.*free → taken.*within the window/ }).waitFor()
  await page.getByRole('row', { name: /pool.*open → closed.*no subscriber.*none/ }).waitFor()
  await expectNoViolations(page)
  const wide = page.viewportSize()!
  await page.setViewportSize({ width: 1024, height: 900 })
  const reasons = page.locator('td .badge, td .monitor-verdicts .text')
  assert.ok((await reasons.count()) > 4)
  assert.deepEqual(await reasons.evaluateAll(listCut), [], 'a reason or a subscriber is cut')
  await page.setViewportSize(wide)
  await page.getByLabel('Why').selectOption('notified_recently')
  await page.getByRole('row', { name: /pool/ }).first().waitFor({ state: 'detached' })
  assert.equal(new URL(page.url()).searchParams.get('reason'), 'notified_recently')
  await page.getByLabel('Source').fill('booking')
  await page.keyboard.press('Enter')
  await page.getByText('Enter a source and a subject').waitFor()
  await page.getByLabel('Time slot').fill('18:00')
  await page.getByLabel('Venue', { exact: true }).fill('pool')
  await page.keyboard.press('Enter')
  await page.getByText('Nothing matches these filters').waitFor()
  await page.getByRole('button', { name: 'Clear filters' }).click()

  await page.getByRole('link', { name: 'court-1' }).first().click()
  await page.getByRole('heading', { level: 1, name: 'court-1' }).waitFor()
  await page.locator('pre', { hasText: '"taken"' }).waitFor()
  await page.getByRole('row', { name: /front desk.*taken.*current state.*not repeated/ }).waitFor()
  await page.getByText('It is not repeated within the window').waitFor()
  assert.equal(await page.locator('.monitor-chapter').count(), 4)
  await expectNoViolations(page)
})

test('the alerts show each rule: what it fires for, and which channels take it', async () => {
  await using receiver = await startReceiver()
  await using dashboard = await openDashboard({
    box: { allowPrivate: ['127.0.0.0/8'], alerts: { everyMs: 200 } },
  })
  const { page, client } = dashboard
  await dashboard.visit('/monitor?part=alerts')
  await page.getByText('Alerts are off').waitFor()
  assert.equal(await page.locator('tbody tr').count(), 8)
  await expectNoViolations(page)
  const channel = { type: 'webhook' as const, url: receiver.url, secret: receiver.secret }
  await client.call(addAlerts, { body: { name: 'on-call', channel } })
  await client.call(addAlerts, { body: { name: 'nodes', channel, rule: 'node-lost' } })
  for (const queue of ['q1', 'q2', 'q3', 'q4']) {
    await client.jobs.add('mail', null, { queue, maxAttempts: 1 })
    const [job] = await client.jobs.claim({ queues: [queue] })
    await client.jobs.nack(job!, { error: 'no' })
  }
  const dead = page.getByRole('row', { name: /^dead-jobs/ })
  await dead.getByText('4 firing').waitFor()
  await dead.getByText('and 1 more').waitFor()
  await dead.getByText('1 dead.').first().waitFor()
  assert.deepEqual(await dead.getByRole('cell').last().innerText(), 'on-call')
  const lost = page.getByRole('row', { name: /^node-lost/ })
  assert.match(await lost.innerText(), /no problem[\s\S]*on-call, nodes/)
  await expectNoViolations(page)
  await dead.getByRole('link').first().click()
  await page.getByRole('heading', { name: /^dead-jobs q/ }).waitFor()
})

test('a user replays a dead notification, silences venues for a while, and ends a subscription', async () => {
  await using receiver = await startReceiver({ secret: 'the-secret-of-the-receiver' })
  await using dashboard = await openDashboard({
    box: { allowPrivate: ['127.0.0.0/8'] },
    context: { locale: 'zh-CN', colorScheme: 'dark' },
  })
  const { page, client } = dashboard
  for (const [part, text] of [
    ['decisions', '还没有决策'],
    ['notifications', '没有通知'],
    ['subscriptions', '还没有订阅'],
    ['venues', '还没有上报场所'],
    ['silences', '没有静默'],
    ['alerts', '告警未开启'],
  ]) {
    await dashboard.visit(`/monitor?part=${part}`)
    await page.getByText(text!, { exact: true }).waitFor()
  }
  await expectNoViolations(page)
  const channel = { type: 'webhook', url: receiver.url, secret: 'another-secret-than-theirs' }
  await client.monitor.subscribe({ name: '值班', channel, maxRetries: 0 })
  for (const state of ['free', 'taken']) await see(dashboard, 'court-1', state)
  const isDead = async () => (await client.monitor.notifications({ status: 'dead' })).items.length === 1
  while (!(await isDead())) await new Promise((resolve) => setTimeout(resolve, 20))
  await dashboard.visit('/monitor?part=notifications&status=dead')
  await page.getByRole('row', { name: /court-1.*free → taken.*值班.*死信/ }).waitFor()
  await expectNoViolations(page)
  const refused = receiver.refusals.length
  await page.getByRole('button', { name: '重新发送' }).click()
  await confirm(dashboard, '重新发送 1 条通知？', '重新发送')
  await page.getByText('已重新安排发送。').waitFor()
  while (receiver.refusals.length === refused) await new Promise((resolve) => setTimeout(resolve, 20))

  await dashboard.visit('/monitor?source=booking&timeSlot=18%3A00&venueId=court-1')
  await page.getByRole('button', { name: '静默此场所' }).click()
  const form = page.getByRole('dialog', { name: '新建静默' })
  await form.getByLabel('静默时长').fill('2h')
  await form.getByLabel('说明').fill('维护')
  await expectNoViolations(page)
  await form.getByRole('button', { name: '新建静默' }).click()
  await form.waitFor({ state: 'detached' })
  const [silence] = await client.monitor.silences()
  assert.deepEqual(silence!.match, { ...place, venueId: 'court-1' })
  assert.equal(silence!.endsAt - silence!.startsAt, 7_200_000)
  await see(dashboard, 'court-1', 'closed')
  await page.keyboard.press('r')
  await page.locator('.monitor-chapter').getByText('已静默').first().waitFor()
  await dashboard.visit('/monitor?part=silences')
  await page
    .getByRole('row', { name: /场所为 court-1.*维护/ })
    .getByRole('button', { name: '结束静默' })
    .click()
  await confirm(dashboard, '结束 1 个静默？', '结束静默')
  await page.getByText('没有静默', { exact: true }).waitFor()
  assert.deepEqual(await client.monitor.silences(), [])

  await page.getByRole('link', { name: '场所' }).click()
  await page.getByLabel('搜索场所').fill('court')
  await page.keyboard.press('Enter')
  await page.getByRole('row', { name: /court-1.*closed/ }).waitFor()
  await page.getByRole('link', { name: '订阅' }).click()
  await page.getByRole('row', { name: /值班/ }).getByRole('button', { name: '退订' }).click()
  await confirm(dashboard, '退订 1 个订阅？', '退订')
  await page.getByText('还没有订阅').waitFor()
  assert.deepEqual(await client.monitor.subscriptions(), [])
  const actions = (await client.audit.list()).items.map(({ action }) => action)
  for (const action of ['monitor.replay', 'monitor.silence', 'monitor.unsilence', 'monitor.unsubscribe'])
    assert.ok(actions.includes(action), action)
})

test('each of these views works in Chinese, in dark mode and on a phone', async () => {
  await using dashboard = await openDashboard({
    context: { locale: 'zh-CN', colorScheme: 'dark', viewport: { width: 390, height: 844 } },
  })
  const { page, client } = dashboard
  const id = await die(dashboard, 'mail')
  await client.jobs.setLimits('mail', { concurrency: 5, perKey: { concurrency: 1 } })
  await client.jobs.pause('mail')
  for (const state of ['free', 'taken']) await see(dashboard, 'court-1', state)
  const explained = 'monitor?source=booking&timeSlot=18%3A00&venueId=court-1'
  for (const [path, text] of [
    ['queues', '队列'],
    ['queue?name=mail', '最新作业'],
    [`job?id=${id}`, '时间线'],
    ['audit', '审计'],
    ['settings', '健康状态'],
    ['monitor', 'court-1'],
    [explained, '通知与否及原因'],
  ]) {
    await dashboard.visit(`/${path}`)
    await page.locator('main').getByText(text!).first().waitFor()
    await expectNoViolations(page)
    const isWider = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)
    assert.ok(!isWider, `${path} is wider than the page`)
  }
})
