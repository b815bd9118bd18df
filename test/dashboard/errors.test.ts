import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type Dashboard, expectNoViolations, openDashboard } from './dashboard.ts'

/** Dead jobs with one cause and varying words, and one job with another. */
async function failSome({ client }: Dashboard, count: number): Promise<void> {
  const job = { kind: 'pay', queue: 'pay', maxAttempts: 1 }
  await client.jobs.addMany(Array.from({ length: count }, () => job))
  const jobs = await client.jobs.claim({ queues: ['pay'], limit: count })
  for (const [nth, one] of jobs.entries()) {
    const message = `card ${nth * 7919} of user ${nth * 104_729} was refused`
    await client.jobs.nack(one, { error: { name: 'CardError', message } })
  }
  await client.jobs.add('mail', {}, { queue: 'mail', maxAttempts: 1 })
  const [other] = await client.jobs.claim({ queues: ['mail'] })
  await client.jobs.nack(other!, { error: { name: 'RelayError', message: 'the relay is away' } })
}

test('errors are grouped by cause; an operator retries a canary of a group first, then the rest', async () => {
  await using dashboard = await openDashboard({ expected: /404/ })
  const { page, client } = dashboard
  await dashboard.visit('/errors')
  await page.getByText('No errors', { exact: true }).waitFor()
  await expectNoViolations(page)
  await failSome(dashboard, 12)
  await page.keyboard.press('r')
  const row = page.getByRole('row', { name: /CardError card .* was refused.*pay 12/ })
  await row.waitFor()
  await page.getByRole('row', { name: /RelayError.*mail 1/ }).waitFor()
  await expectNoViolations(page)

  await row.getByRole('link', { name: 'CardError' }).click()
  await page.getByRole('heading', { level: 1, name: 'CardError' }).waitFor()
  await page.getByRole('table', { name: 'Jobs with this last error' }).getByRole('row').nth(12).waitFor()
  await expectNoViolations(page)
  const dead = async () => (await client.jobs.list({ kind: 'pay', state: 'dead' })).items.length
  await page.getByRole('button', { name: 'Retry 5 first' }).click()
  const canary = page.getByRole('dialog', { name: 'Retry up to 5 dead jobs of this group?' })
  await canary.getByRole('button', { name: 'Retry', exact: true }).click()
  await page.getByText('5 done, 0 skipped').waitFor()
  assert.equal(await dead(), 7)
  await page.getByRole('button', { name: 'Retry the group' }).click()
  const rest = page.getByRole('dialog', { name: 'Retry 7 jobs?' })
  await rest.getByRole('button', { name: 'Retry', exact: true }).click()
  await page.getByText('7 done, 0 skipped').waitFor()
  assert.equal(await dead(), 0)
  const { items } = await client.jobs.list({ kind: 'mail', state: 'dead' })
  assert.equal(items.length, 1)
  // The page of a job leads to the group of its error.
  await dashboard.visit(`/job?id=${items[0]!.id}`)
  await page.getByRole('link', { name: 'View error group' }).click()
  await page.getByRole('heading', { level: 1, name: 'RelayError' }).waitFor()
  await dashboard.visit('/errors?group=0000000000000000')
  await page.getByText('No such error group').waitFor()
})

test('a phone in Chinese and in dark mode shows error groups, and names full of markup are text', async () => {
  await using dashboard = await openDashboard({
    context: { locale: 'zh-CN', colorScheme: 'dark', viewport: { width: 390, height: 844 } },
  })
  const { page, client } = dashboard
  const kind = '<img src=x onerror=alert(1)>'.padEnd(120, 'x')
  await client.jobs.add(kind, {}, { queue: 'pay', maxAttempts: 1 })
  const [job] = await client.jobs.claim({ queues: ['pay'] })
  await client.jobs.nack(job!, { error: { name: kind, message: kind, stack: kind } })
  await dashboard.visit('/errors')
  await page.getByRole('link', { name: /<img/ }).first().waitFor()
  await expectNoViolations(page)
  const wider = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  assert.ok((await wider()) <= 0)
  await page.getByRole('link', { name: /<img/ }).first().click()
  await page.getByRole('button', { name: '先重试 5 个' }).waitFor()
  await expectNoViolations(page)
  assert.ok((await wider()) <= 0)
})
