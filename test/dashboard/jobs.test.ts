import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Dashboard } from './dashboard.ts'
import { expectNoViolations, openDashboard } from './dashboard.ts'

async function addDead({ client }: Dashboard, count: number): Promise<void> {
  await client.jobs.addMany(
    Array.from({ length: count }, (_, nth) => ({
      kind: 'mail',
      payload: { nth },
      queue: 'mail',
      maxAttempts: 1,
    })),
  )
  const jobs = await client.jobs.claim({ queues: ['mail'], limit: count })
  const error = { name: 'RelayError', message: 'relay is away' }
  await Promise.all(jobs.map((job) => client.jobs.nack(job, { error })))
}

test('filters are in the address, survive a reload, and give advice when nothing matches', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await client.jobs.add('mail', { to: 'ann' }, { queue: 'eu' })
  await client.jobs.add('report', { to: 'bob' }, { queue: 'us' })
  await dashboard.visit('/jobs')
  await page.getByRole('row', { name: /report/ }).waitFor()
  await page.getByLabel('Queue').selectOption('eu')
  await page.getByRole('row', { name: /report/ }).waitFor({ state: 'detached' })
  await page.getByRole('searchbox', { name: 'Search', exact: true }).fill('payload.to:ann')
  await page.keyboard.press('Enter')
  assert.equal(new URL(page.url()).search, '?queue=eu&search=payload.to%3Aann')
  await page.reload()
  await page.getByRole('row', { name: /mail/ }).waitFor()
  await page.getByLabel('State').selectOption('dead')
  await page.getByText('No jobs match these filters').waitFor()
  await expectNoViolations(page)
  await page.getByRole('button', { name: 'Clear filters' }).last().click()
  await page.getByRole('row', { name: /report/ }).waitFor()
  assert.equal(new URL(page.url()).search, '')
})

test('the search field leads to the jobs from every view, and explains a search that does not parse', async () => {
  await using dashboard = await openDashboard({ expected: /400/ })
  const { page, client } = dashboard
  await client.jobs.add('mail', { order: { id: 42 } })
  await client.jobs.add('mail', { order: { id: 43 } })
  await dashboard.visit('/')
  await page.keyboard.press('/')
  await page.keyboard.type('payload.order.id:42')
  await page.keyboard.press('Enter')
  await page.getByText('1 job on this page').waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type('kind:')
  await page.keyboard.press('Enter')
  const field = page.getByRole('searchbox', { name: 'Search', exact: true })
  await page
    .getByRole('status')
    .getByText(/does not parse: at column 6/)
    .waitFor()
  assert.equal(await field.getAttribute('aria-invalid'), 'true')
  const hint = await field.getAttribute('aria-describedby')
  assert.match((await page.locator(`[id="${hint}"]`).textContent())!, /does not parse/)
  // It is no failure of the page.
  assert.equal(await page.getByRole('alert').count(), 0)
  await expectNoViolations(page)
  await field.fill('')
  await page.keyboard.press('Enter')
  await page.getByText('2 jobs on this page').waitFor()
  assert.equal(await field.getAttribute('aria-invalid'), null)
})

test('a running search shows that it is running', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await client.jobs.add('mail')
  await dashboard.visit('/jobs')
  await page.getByText('1 job on this page').waitFor()
  const { promise: held, resolve } = Promise.withResolvers<void>()
  await page.route(/search=/, async (route) => {
    await held
    await route.continue()
  })
  await page.getByRole('searchbox', { name: 'Search', exact: true }).fill('kind:mail')
  await page.keyboard.press('Enter')
  const looking = page.getByRole('status').getByText('Searching…')
  await looking.waitFor()
  resolve()
  await looking.waitFor({ state: 'detached' })
})

test('on a phone the list shows why a job failed', async () => {
  await using dashboard = await openDashboard({ context: { viewport: { width: 390, height: 844 } } })
  const { page } = dashboard
  await addDead(dashboard, 1)
  await dashboard.visit('/jobs')
  await page.getByText('relay is away').filter({ visible: true }).waitFor()
  await expectNoViolations(page)
})

test('the keyboard moves between rows, selects them and opens them', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  for (const kind of ['one', 'two', 'three']) await client.jobs.add(kind)
  await dashboard.visit('/jobs')
  await page.getByRole('row', { name: /one/ }).waitFor()
  for (const key of ['j', 'j', 'x', 'k', 'x']) await page.keyboard.press(key)
  await page.getByText('2 selected').waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/job\?id=/)
  await page.goBack()
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor()
})

test('selected jobs are retried after a question with their number', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await addDead(dashboard, 3)
  await dashboard.visit('/jobs?state=dead')
  await page.getByLabel('Select all on this page').check()
  await page.getByRole('button', { name: 'Retry' }).click()
  const dialog = page.getByRole('dialog', { name: 'Retry 3 jobs?' })
  await expectNoViolations(page)
  await dialog.getByRole('button', { name: 'Retry' }).click()
  await page.getByText('3 jobs: done').waitFor()
  const [stats] = await client.jobs.stats()
  assert.deepEqual([stats!.dead, stats!.ready], [0, 3])
})

test('all matching jobs are deleted after the user typed their number, with progress shown', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await addDead(dashboard, 120)
  await client.jobs.add('mail', {}, { queue: 'mail' })
  await dashboard.visit('/jobs?state=dead&queue=mail')
  await page.getByRole('button', { name: 'Delete' }).click()
  const dialog = page.getByRole('dialog', { name: 'Delete 120 jobs?' })
  await dialog.getByText('state:dead queue:"mail"').waitFor()
  const act = dialog.getByRole('button', { name: 'Delete' })
  assert.equal(await act.getAttribute('aria-disabled'), 'true')
  await dialog.getByLabel('Type 120 to confirm').fill('120')
  await act.click()
  await page.getByText('120 done, 0 skipped').waitFor()
  const { items } = await client.jobs.list()
  assert.equal(items.length, 1)
  const audited = await client.audit.list({ action: 'jobs.bulk' })
  assert.ok(audited.items.length > 0)
})

test("a button turns pages, and the browser's back button returns", async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await client.jobs.addMany(Array.from({ length: 60 }, () => ({ kind: 'mail' })))
  await dashboard.visit('/jobs')
  await page.getByText('50 jobs on this page').waitFor()
  await page.getByRole('button', { name: 'Next page' }).click()
  await page.getByText('10 jobs on this page').waitFor()
  await page.goBack()
  await page.getByText('50 jobs on this page').waitFor()
})

test('a list of rare jobs continues to search, and the user can stop and resume it', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await client.jobs.add('rare', { to: 'ann' })
  const { items } = await client.jobs.list()
  // As a server answers that has millions: it looks for a while, and says how far it came.
  let isNear = true
  let held: Promise<void> | undefined
  await page.route(/\/v1\/jobs\?/, async (route) => {
    const cursor = Number(new URL(route.request().url()).searchParams.get('cursor'))
    await held
    const isFound = isNear && cursor >= 3
    const further = { items: [], cursor: String(cursor + 1), scanned: 50_000, stopped: 'time' }
    await route.fulfill({ json: isFound ? { items, cursor: null } : further })
  })
  await dashboard.visit('/jobs?kind=rare')
  await page.getByRole('row', { name: /rare/ }).waitFor()
  await page.getByText('150,001 jobs searched, 1 found').waitFor()
  const lookOn = page.getByRole('button', { name: 'Search further' })
  assert.equal(await lookOn.count(), 0)

  isNear = false
  await page.getByRole('searchbox', { name: 'Search', exact: true }).fill('payload.to:ann')
  await page.keyboard.press('Enter')
  await lookOn.waitFor()
  await page.getByText(/^[\d,]+ jobs searched, 0 found/).waitFor()
  await expectNoViolations(page)
  const { promise, resolve } = Promise.withResolvers<void>()
  held = promise
  await lookOn.click()
  await page.getByText(/^Searching: [\d,]+ jobs so far, 0 found/).waitFor()
  await page.getByRole('button', { name: 'Stop searching' }).click()
  await lookOn.waitFor()
  isNear = true
  resolve()
  await lookOn.click()
  await page.getByRole('row', { name: /rare/ }).waitFor()
})

test('a bulk retry takes only dead jobs, shows counts by state, and warns before completed jobs run again', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await addDead(dashboard, 3)
  await client.jobs.addMany(Array.from({ length: 2 }, () => ({ kind: 'mail', queue: 'done' })))
  for (const job of await client.jobs.claim({ queues: ['done'], limit: 2 })) await client.jobs.ack(job)
  const { id } = await client.jobs.add('before', {}, { queue: 'held' })
  await client.jobs.add('behind', {}, { queue: 'held', after: id })
  await dashboard.visit('/jobs')
  await page.getByRole('row', { name: /behind/ }).waitFor()
  await page.getByRole('button', { name: 'Retry' }).click()
  const asks = (count: number) => page.getByRole('dialog', { name: new RegExp(`^Retry ${count} jobs?\\?`) })
  await asks(3).getByText('id:* state:dead').waitFor()
  const state = (name: RegExp) => page.getByRole('dialog').getByLabel(name)
  assert.equal(await state(/completed\s+2/).isChecked(), false)
  assert.equal(await state(/waiting\s+1/).isChecked(), false)
  await asks(3)
    .getByText(/ready\s+1/)
    .waitFor()
  await expectNoViolations(page)

  await state(/waiting/).check()
  await asks(4)
    .getByText(/without waiting for their dependencies/)
    .waitFor()
  await state(/waiting/).uncheck()
  await state(/completed/).check()
  await asks(5)
    .getByText(/They run again/)
    .waitFor()
  const act = page.getByRole('dialog').getByRole('button', { name: 'Retry' })
  assert.equal(await act.getAttribute('aria-disabled'), 'true')
  await state(/completed/).uncheck()
  await act.click()
  await page.getByText('3 done, 0 skipped').waitFor()
  const left = await client.jobs.list({ limit: 500 })
  const sum = (of: string) => left.items.filter(({ state }) => state === of).length
  assert.deepEqual([sum('dead'), sum('completed'), sum('waiting')], [0, 2, 1])
})

test('an action on more than 100 jobs asks for the number, and counting leaves no audit entry', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await addDead(dashboard, 101)
  await dashboard.visit('/jobs')
  await page.getByRole('button', { name: 'Retry' }).click()
  const dialog = page.getByRole('dialog', { name: 'Retry 101 jobs?' })
  const act = dialog.getByRole('button', { name: 'Retry' })
  assert.equal(await act.getAttribute('aria-disabled'), 'true')
  assert.deepEqual((await client.audit.list({ action: 'jobs.bulk' })).items, [])
  await dialog.getByLabel('Type 101 to confirm').fill('101')
  await act.click()
  await page.getByText('101 done, 0 skipped').waitFor()
})

test('a count that comes in parts is added up before the question appears', async () => {
  await using dashboard = await openDashboard()
  const { page } = dashboard
  const none = { scheduled: 0, ready: 0, waiting: 0, running: 0, completed: 0, dead: 0, cancelled: 0 }
  // As a server answers that has more jobs than one part looks at.
  const first = {
    states: { ...none, ready: 49_998, dead: 2 },
    scanned: 50_000,
    stopped: 'rows',
    cursor: 'next',
  }
  const last = { states: { ...none, ready: 7, dead: 3 }, scanned: 10, stopped: null, cursor: null }
  const { promise: held, resolve: goOn } = Promise.withResolvers<void>()
  await page.route('**/v1/jobs/bulk', async (route) => {
    const { cursor } = route.request().postDataJSON()
    if (cursor === 'next') await held
    await route.fulfill({ json: { matched: 0, ...(cursor === 'next' ? last : first) } })
  })
  await dashboard.visit('/jobs')
  await page.getByRole('button', { name: 'Retry' }).click()
  await page.getByText('Counting matching jobs… 50,000 searched so far').waitFor()
  goOn()
  const dialog = page.getByRole('dialog', { name: 'Retry 5 jobs?' })
  await dialog.getByLabel(/dead\s+5/).waitFor()
  await dialog.getByText(/ready\s+50,005/).waitFor()
})

test('a retry of selected jobs takes only the dead ones', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await addDead(dashboard, 2)
  await client.jobs.add('report', {}, { queue: 'done' })
  for (const job of await client.jobs.claim({ queues: ['done'] })) await client.jobs.ack(job)
  await dashboard.visit('/jobs')
  await page.getByRole('row', { name: /report/ }).waitFor()
  await page.getByLabel('Select all on this page').check()
  await page.getByText('3 selected').waitFor()
  await page.getByRole('button', { name: 'Retry' }).click()
  const dialog = page.getByRole('dialog', { name: 'Retry 2 jobs?' })
  assert.equal(await dialog.getByLabel(/completed\s+1/).isChecked(), false)
  await dialog.getByRole('button', { name: 'Retry' }).click()
  await page.getByText('2 jobs: done').waitFor()
  const { items } = await client.jobs.list()
  assert.deepEqual(items.map(({ state }) => state).sort(), ['completed', 'ready', 'ready'])
})
