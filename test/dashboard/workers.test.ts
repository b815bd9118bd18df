import assert from 'node:assert/strict'
import { test } from 'vitest'
import { expectNoViolations, openDashboard } from './dashboard.ts'

test('workers are listed with their host and running jobs, and can be quieted, resumed and stopped', async () => {
  // The browser writes about what it does not find.
  await using dashboard = await openDashboard({ expected: /404/ })
  const { page, client, stage } = dashboard
  await dashboard.visit('/workers')
  await page.getByText('No workers', { exact: true }).waitFor()
  await expectNoViolations(page)

  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  const worker = stage.box.jobs.worker({
    ...{ queues: ['mail'], workerId: 'mailer', release: '2.4.1', concurrency: 3 },
    handlers: { mail: async () => await ended },
  })
  await worker.start()
  try {
    const { id } = await client.jobs.add('mail', {}, { queue: 'mail' })
    // A worker renews its row every ten seconds at most, so what it runs may take that long to show.
    const row = page.getByRole('row', { name: /mailer running.*1\/3.*mail.*2\.4\.1/ })
    await row.waitFor()
    await expectNoViolations(page)
    await row.getByRole('link', { name: 'mailer' }).click()
    await page.getByRole('heading', { level: 1, name: 'mailer' }).waitFor()
    await page.getByRole('row', { name: new RegExp(id) }).waitFor()
    await expectNoViolations(page)

    const confirm = async (title: RegExp, act: string) => {
      const dialog = page.getByRole('dialog', { name: title })
      await dialog.getByRole('button', { name: act, exact: true }).click()
      await dialog.waitFor({ state: 'detached' })
    }
    const facts = page.locator('.facts')
    await page.getByRole('button', { name: 'Quiet', exact: true }).click()
    await confirm(/^Quiet mailer, which runs 1 job\?/, 'Quiet')
    await page.getByText('mailer was asked to go quiet.').waitFor()
    await facts.getByText('quiet', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Resume', exact: true }).click()
    await confirm(/^Resume mailer/, 'Resume')
    await facts.getByText('running', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    const dialog = page.getByRole('dialog', { name: /^Stop mailer/ })
    await dialog.getByLabel('Grace').fill('1s')
    await confirm(/^Stop mailer/, 'Stop')
    await page.getByText('No such worker').waitFor()
    const audited = await client.audit.list()
    const actions = audited.items.map(({ action }) => action).filter((action) => action.startsWith('worker.'))
    assert.deepEqual(actions.toSorted(), ['worker.quiet', 'worker.resume', 'worker.stop'])
  } finally {
    end()
    await worker.stop()
  }
})

test('the address filters workers, and a phone in Chinese and in dark mode shows them', async () => {
  await using dashboard = await openDashboard({
    context: { locale: 'zh-CN', colorScheme: 'dark', viewport: { width: 390, height: 844 } },
  })
  const { page, stage } = dashboard
  const name = 'w'.repeat(120)
  const first = stage.box.jobs.worker({
    queues: ['mail'],
    workerId: name,
    handlers: { mail: () => undefined },
  })
  const second = stage.box.jobs.worker({
    queues: ['images'],
    workerId: 'drawer',
    handlers: { draw: () => undefined },
  })
  await first.start()
  await second.start()
  await dashboard.visit('/workers')
  await page.getByRole('row', { name: /drawer/ }).waitFor()
  await page.getByText('2 个在线，0 个失联').waitFor()
  await expectNoViolations(page)
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  assert.ok(wider <= 0, `${wider} px too wide`)
  await dashboard.visit('/workers?queue=mail')
  await page.getByRole('row', { name: /wwww/ }).waitFor()
  assert.equal(await page.getByRole('row', { name: /drawer/ }).count(), 0)
})
