import assert from 'node:assert/strict'
import { test } from 'vitest'
import { expectNoViolations, openDashboard } from './dashboard.ts'
import { listPaths, longName, seedHuge } from './huge-seed.ts'
import { expectGoodLayout } from './layout.ts'

const secret = 'a-bootstrap-secret-of-more-than-32-characters'

test('every view of a huge server fits the page, in both languages and themes, worst entries first', async () => {
  await using dashboard = await openDashboard({
    server: { bootstrap: [secret] },
    box: { allowPrivate: ['127.0.0.0/8'] },
    token: secret,
  })
  const { page, client, url, stage } = dashboard
  await page.addInitScript((token) => sessionStorage.setItem('signalbox.token', token), secret)
  await using huge = await seedHuge(client, stage.box, url, secret)
  await expectGoodLayout(page, url, huge.paths)

  await page.setViewportSize({ width: 1024, height: 900 })
  // Only now: a waiter that does not ask again leaves the wait queue, and the views above take long on a busy machine.
  const worst = { operation: longName(499 % 3), resource: longName(499) }
  for (let nth = 0; nth < 9; nth++)
    await client.locks.acquire({ ...worst, node: longName(nth), want: 'turn' })
  await dashboard.visit('/locks')
  await page.getByText('500 locks, worst first').waitFor()
  await page.locator('article').first().getByText('9 waiting').waitFor()
  assert.equal(await page.locator('article').count(), 20)
  await page.getByRole('button', { name: 'Show 20 more of 500' }).click()
  await page.locator('article').nth(39).waitFor()
  await expectNoViolations(page)
  await dashboard.visit('/nodes')
  await page.getByText('200 nodes, worst first').waitFor()
  await page.getByRole('row').nth(1).getByText('cordoned').waitFor()
  await expectNoViolations(page)
  await dashboard.visit('/jobs')
  await page.getByText('50 jobs on this page').waitFor()
  await expectNoViolations(page)
}, 300_000)

test('every view of an empty server fits the page, in both languages', async () => {
  await using dashboard = await openDashboard()
  const { page, url } = dashboard
  const paths = listPaths.map((path) => `/${path}`)
  // The tests of each view look at the contrast of what it says when there is nothing.
  await expectGoodLayout(page, url, paths, { isContrastAsked: false })
})
