import assert from 'node:assert/strict'
import { test } from 'vitest'
import { connectNode, type NodeConnection } from '../../src/http/client/index.ts'
import { expectNoViolations, openDashboard } from './dashboard.ts'

/** As long as a name may be. */
const nameOf = (nth: number) => `${nth}-`.padStart(7, '0').padEnd(191, 'long-name-')

test('a huge server is shown worst first, and no view is wider than the window', async () => {
  await using dashboard = await openDashboard()
  const { page, client, url } = dashboard
  for (let at = 0; at < 100_000; at += 1_000) {
    const jobs = Array.from({ length: 1_000 }, (_, nth) => ({
      kind: nameOf(nth % 40),
      queue: nameOf(nth % 60),
    }))
    await client.jobs.addMany(jobs)
  }
  for (let nth = 0; nth < 500; nth++)
    await client.locks.acquire({
      operation: nameOf(nth % 3),
      resource: nameOf(nth),
      node: nameOf(nth),
      ttlMs: '10m',
    })
  const nodes: NodeConnection[] = []
  try {
    for (let nth = 0; nth < 200; nth++)
      nodes.push(
        await connectNode(url, {
          nodeId: nameOf(nth),
          services: [{ name: nameOf(1), slots: 4 }],
          labels: { zone: nameOf(2) },
          onTask: async () => undefined,
        }),
      )
    await client.dispatch.cordon(nameOf(199))
    for (const width of [1440, 1024, 390]) {
      await page.setViewportSize({ width, height: 900 })
      for (const path of ['/', '/jobs', '/queues', '/locks', '/nodes', '/workers', '/errors', '/once']) {
        await dashboard.visit(path)
        await page.locator('main .loading').first().waitFor({ state: 'detached' })
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
        assert.ok(wider <= 0, `${path} at ${width} is ${wider} px too wide`)
      }
    }
    await page.setViewportSize({ width: 1024, height: 900 })
    // Only now: a waiter that does not ask again leaves the wait queue, and the views above take long on a busy machine.
    const worst = { operation: nameOf(499 % 3), resource: nameOf(499) }
    for (let nth = 0; nth < 9; nth++)
      await client.locks.acquire({ ...worst, node: nameOf(nth), want: 'turn' })
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
  } finally {
    await Promise.all(nodes.map((node) => node[Symbol.asyncDispose]()))
  }
}, 300_000)
