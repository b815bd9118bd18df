import { test } from 'vitest'
import { expectNoViolations, openDashboard } from './dashboard.ts'

test('the page of a job shows each failed attempt with worker and error, and its blocked times', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  const before = await client.jobs.add('before', {}, { queue: 'first' })
  const { id } = await client.jobs.add('mail', {}, { queue: 'mail', maxAttempts: 2, after: before.id })
  const [first] = await client.jobs.claim({ queues: ['first'] })
  await client.jobs.ack(first!)
  for (const nth of [1, 2]) {
    const [job] = await client.jobs.claim({ queues: ['mail'], workerId: `mailer-${nth}`, waitMs: 30_000 })
    const error = { name: 'RelayError', message: `relay ${nth} is away`, stack: `at send.ts:${nth}` }
    await client.jobs.nack(job!, { error, retryInMs: 1 })
  }
  await dashboard.visit(`/job?id=${id}`)
  const attempts = page.getByRole('list', { name: 'Failed attempts' }).getByRole('listitem')
  await attempts.nth(1).waitFor()
  await attempts.nth(0).getByText('Attempt 2').waitFor()
  await attempts.nth(0).getByText('dead', { exact: true }).waitFor()
  await attempts.nth(0).getByText('mailer-2').waitFor()
  await attempts.nth(1).getByText('failed', { exact: true }).waitFor()
  await attempts.nth(1).getByText('relay 1 is away').waitFor()
  await attempts.nth(1).getByText('Stack').click()
  await attempts.nth(1).getByText('at send.ts:1').waitFor()
  await page.locator('.job-timeline').getByText('Waited for other jobs').waitFor()
  await page
    .locator('.job-timeline')
    .getByText(/^blocked for/)
    .waitFor()
  await expectNoViolations(page)
})
