import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Client } from '../../src/http/client/index.ts'
import { type Dashboard, expectNoViolations, openDashboard } from './dashboard.ts'
import { scriptPayloads } from './script-payloads.ts'

const line = { operation: 'pull', resource: 'app:1.2' }

/** node-1 has its turn, the others wait. Answers the token of the turn. */
async function standInLine(client: Client, key: typeof line, nodes: readonly string[]): Promise<number> {
  const [first, ...others] = nodes
  const turn = await client.locks.acquire({ ...key, node: first!, ttlMs: '5m' })
  assert.equal(turn.status, 'granted')
  for (const node of others) await client.locks.acquire({ ...key, node, want: 'turn' })
  return (turn as { readonly token: number }).token
}

/** Confirms what the dialog asks. */
async function confirm({ page }: Dashboard, title: string | RegExp, act: string): Promise<void> {
  const dialog = page.getByRole('dialog', { name: title })
  await dialog.getByRole('button', { name: act, exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
}

test('each wait queue shows its holder and its waiters, and is found by operation and resource', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  const token = await standInLine(client, line, ['node-1', 'node-2', 'node-3'])
  await client.locks.renew({ ...line, node: 'node-1', token, progress: { percent: 42, note: 'layer 3' } })
  await client.locks.acquire({ operation: 'deploy', resource: 'eu-1', node: 'ci' })
  await dashboard.visit('/locks')
  const drawn = page.getByRole('article').filter({ hasText: 'app:1.2' })
  await drawn.getByText('2 waiting').waitFor()
  await drawn.locator('.locks-holder').getByText('node-1').waitFor()
  await drawn.getByText('42%').waitFor()
  await drawn.getByText('layer 3').waitFor()
  await drawn.getByText(/of its lease left/).waitFor()
  const waiters = drawn.getByRole('listitem')
  await waiters.nth(1).waitFor()
  assert.deepEqual(
    (await waiters.allTextContents()).map((text) => text.slice(0, 6)),
    ['node-2', 'node-3'],
  )
  await expectNoViolations(page)

  await page.getByLabel('Operation').fill('deploy')
  await page.keyboard.press('Enter')
  await drawn.waitFor({ state: 'detached' })
  assert.equal(new URL(page.url()).search, '?operation=deploy')
  await page.keyboard.press('Escape')
  await page.keyboard.press('/')
  await page.keyboard.type('nowhere')
  await page.keyboard.press('Enter')
  await page.getByText('No lock matches these filters').waitFor()
  await page.getByRole('button', { name: 'Clear filters' }).click()
  await drawn.waitFor()
  // The one with waiters is the first, though its name is not.
  await page.keyboard.press('j')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'app:1.2' }).waitFor()
  assert.equal(new URL(page.url()).search, '?operation=pull&resource=app%3A1.2')
})

test('an open wait queue shows its events, and an operator can evict its waiters and its holder', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  const token = await standInLine(client, line, ['node-1', 'node-2', 'node-3'])
  await dashboard.visit('/locks?operation=pull&resource=app:1.2')
  const events = page.getByRole('list', { name: 'Recent events' })
  await events.getByText('node-1 holds it, 2 waiting').waitFor()
  await client.locks.renew({ ...line, node: 'node-1', token, progress: { percent: 80 } })
  await events.getByText('node-1: 80%').waitFor()
  await page.locator('.locks-holder').getByText('80%').waitFor()
  await expectNoViolations(page)

  await page.getByRole('button', { name: 'Evict node-3' }).click()
  await confirm(dashboard, 'Evict the waiter node-3?', 'Evict')
  await page.getByText('node-3 was evicted.').waitFor()
  assert.deepEqual(
    (await client.locks.inspect(line)).waiters.map(({ node }) => node),
    ['node-2'],
  )
  // Asking again keeps a position.
  await client.locks.acquire({ ...line, node: 'node-2', want: 'turn' })
  await page.getByRole('button', { name: 'Evict the holder' }).click()
  await confirm(dashboard, 'Evict the holder node-1?', 'Evict')
  // Its grant is taken up at once, for a slow machine might let it pass.
  const turn = await client.locks.acquire({ ...line, node: 'node-2', want: 'turn', ttlMs: '5m' })
  assert.equal(turn.status, 'granted')
  await events.getByText('node-2, attempt 2').waitFor()
  await page.locator('.locks-holder').getByText('node-2').waitFor()
  await page.getByText('node-1, attempt 1').waitFor()
  assert.equal((await client.audit.list({ action: 'lock.evict' })).items.length, 2)

  const { token: second } = turn as { readonly token: number }
  const end = { ...line, node: 'node-2', token: second, outcome: 'success' as const, result: { size: 7 } }
  await client.locks.release(end)
  await page.getByText('This lock has no holder and no waiters').waitFor()
  await page.getByRole('region', { name: 'Result' }).getByText('"size": 7').waitFor()
})

test('guards are counted, filtered by status and key, and forgotten after a question', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  for (const key of ['order:1', 'order:2', 'mail:1']) await client.once.claim({ key })
  const paid = await client.once.claim({ key: 'order:3' })
  await client.once.done({ key: 'order:3', token: (paid as { readonly token: string }).token })
  await client.once.claim({ key: 'order:3' })
  await client.once.claim({ key: 'siren', mode: 'at-most-once', leaseMs: 100 })
  await client.once.claim({ key: 'crawl:7', space: 'processing' })
  await dashboard.visit('/once')
  const row = (name: RegExp) => page.getByRole('row', { name })
  await row(/siren stuck 1 at most once/).waitFor()
  await row(/order:3 done/).waitFor()
  const byStatus = page.getByRole('region', { name: 'How many keys' })
  for (const [status, count] of [
    ['running', 3],
    ['done', 1],
    ['failed', 0],
    ['stuck', 1],
  ])
    await byStatus.getByRole('button', { name: `${count} ${status}` }).waitFor()
  await page
    .locator('.once-server')
    .getByText('Duplicates blocked')
    .locator('..')
    .getByText('1', { exact: true })
    .waitFor()
  await expectNoViolations(page)

  await page.getByLabel('Status').selectOption('stuck')
  await row(/order:3/).waitFor({ state: 'detached' })
  await page.getByText('1 of the 5 keys searched').waitFor()
  await page.getByLabel('Status').selectOption('')
  await page.getByRole('searchbox', { name: 'Part of a key' }).fill('order:')
  await page.keyboard.press('Enter')
  await row(/siren/).waitFor({ state: 'detached' })
  assert.equal(new URL(page.url()).search, '?search=order%3A')

  const forget = page.getByRole('button', { name: 'Forget' })
  assert.equal(await forget.getAttribute('aria-disabled'), 'true')
  await page.getByLabel('Select order:1').check()
  await page.getByLabel('Select order:3').check()
  await forget.click()
  await confirm(dashboard, 'Forget 2 keys?', 'Forget')
  await page.getByText('2 keys forgotten').waitFor()
  const { items } = await client.once.list()
  assert.deepEqual(items.map(({ key }) => key).sort(), ['mail:1', 'order:2', 'siren'])

  await page.getByLabel('Kind').selectOption('processing')
  await page.getByText('No key matches these filters').waitFor()
  await page.getByRole('searchbox', { name: 'Part of a key' }).fill('')
  await page.keyboard.press('Enter')
  await page.getByLabel('Select crawl:7').check()
  await forget.click()
  await confirm(dashboard, 'Forget 1 key?', 'Forget')
  await page.getByText('No task is being processed').waitFor()
  assert.deepEqual((await client.once.list({ space: 'processing' })).items, [])
})

test('a form creates and changes a schedule, and shows mistakes at their fields', async () => {
  await using dashboard = await openDashboard({ expected: /400/ })
  const { page, client } = dashboard
  await client.jobs.schedules.set('taken', { everyMs: '1h', job: { kind: 'x' } })
  await dashboard.visit('/schedules')
  await page.getByRole('row', { name: /taken active every 1 h/ }).waitFor()
  await page.getByRole('button', { name: 'New schedule' }).click()
  const dialog = page.getByRole('dialog', { name: 'New schedule' })
  const field = (name: string) => dialog.getByLabel(name, { exact: true })
  const save = async () => await dialog.getByRole('button', { name: 'Save' }).click()
  const wrong = async (name: string, text: RegExp) => {
    await dialog.getByText(text).waitFor()
    assert.equal(await field(name).getAttribute('aria-invalid'), 'true')
    assert.equal(await dialog.locator('[aria-invalid]').count(), 1)
  }
  await save()
  await wrong('Name', /Required\./)
  await field('Name').fill('taken')
  await field('Cron expression').fill('61 9 * * 1-5')
  await field('Kind').fill('report')
  await field('Payload (JSON)').fill('{"to": }')
  await save()
  await wrong('Payload (JSON)', /Invalid JSON/)
  await field('Payload (JSON)').fill('{"to": "team"}')
  await save()
  await wrong('Name', /A schedule with this name exists/)
  await field('Name').fill('morning')
  await save()
  await wrong('Cron expression', /has "61" as its minute/)
  await expectNoViolations(page)
  await field('Cron expression').fill('0 9 * * 1-5')
  await field('Time zone').fill('Mars/Base')
  await save()
  await wrong('Time zone', /must be a time zone such as/)
  await field('Time zone').fill('Europe/Berlin')
  await field('Queue').fill('signalbox.own')
  await save()
  await wrong('Queue', /belong to Signalbox itself/)
  await field('Queue').fill('reports')
  await save()
  await page.getByRole('heading', { level: 1, name: 'morning' }).waitFor()
  await page.getByText('Monday to Friday at 09:00').waitFor()
  await page.getByText('0 9 * * 1-5').waitFor()
  const made = await client.jobs.schedules.find('morning')
  assert.deepEqual([made!.cron, made!.timeZone, made!.everyMs], ['0 9 * * 1-5', 'Europe/Berlin', null])
  assert.deepEqual(made!.job.payload, { to: 'team' })
  assert.equal(made!.job.queue, 'reports')

  await page.getByRole('button', { name: 'Change' }).click()
  const change = page.getByRole('dialog', { name: 'Change morning' })
  await change.getByLabel('Runs').selectOption('everyMs')
  await change.getByLabel('Every', { exact: true }).fill('10m')
  await change.getByLabel('Missed slots').selectOption('none')
  await change.getByRole('button', { name: 'Save' }).click()
  await page.getByText('every 10 min').waitFor()
  const changed = await client.jobs.schedules.find('morning')
  assert.deepEqual([changed!.cron, changed!.everyMs, changed!.catchUp], [null, 600_000, 'none'])
  assert.deepEqual(changed!.job, made!.job)
})

test('a schedule is run now, paused, resumed and removed, each after a question', async () => {
  await using dashboard = await openDashboard({ expected: /404/ })
  const { page, client } = dashboard
  const { schedules } = client.jobs
  await schedules.set('nightly', { cron: '30 2 * * *', job: { kind: 'backup', payload: { to: 's3' } } })
  await dashboard.visit('/schedules?name=nightly')
  await page.getByText('every day at 02:30').waitFor()
  await page.getByRole('region', { name: 'Payload' }).getByText('"to": "s3"').waitFor()
  await expectNoViolations(page)
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click()
  await press('Run now')
  await confirm(dashboard, 'Run nightly now?', 'Run now')
  await page.getByText(/Job added/).waitFor()
  assert.deepEqual(
    (await client.jobs.list()).items.map(({ kind }) => kind),
    ['backup'],
  )
  await press('Pause')
  await confirm(dashboard, 'Pause nightly?', 'Pause')
  await page.getByText('when resumed').waitFor()
  assert.equal((await schedules.find('nightly'))!.paused, true)
  await press('Resume')
  await confirm(dashboard, 'Resume nightly?', 'Resume')
  await page.getByRole('button', { name: 'Pause', exact: true }).waitFor()
  assert.equal((await schedules.find('nightly'))!.paused, false)
  await press('Remove')
  await confirm(dashboard, 'Remove nightly?', 'Remove')
  await page.getByText('No schedules yet').waitFor()
  assert.deepEqual((await schedules.list()).items, [])
  await dashboard.visit('/schedules?name=nightly')
  await page.getByText('No such schedule').waitFor()
})

test('a read-only user sees the actions, and why they are disabled', async () => {
  const secret = 'a-bootstrap-secret-of-more-than-32-characters'
  await using dashboard = await openDashboard({
    server: { bootstrap: [secret] },
    token: secret,
    expected: /401/,
  })
  const { page, client } = dashboard
  await standInLine(client, line, ['node-1', 'node-2'])
  const { secret: eyes } = await client.tokens.create({ name: 'eyes', scope: 'read' })
  await dashboard.visit('/locks?operation=pull&resource=app:1.2')
  await page.getByLabel('Token').fill(eyes)
  await page.keyboard.press('Enter')
  for (const name of [/^Evict the holder/, /^Evict node-2/]) {
    const act = page.getByRole('button', { name })
    await act.waitFor()
    assert.equal(await act.getAttribute('aria-disabled'), 'true')
    assert.match((await act.getAttribute('title'))!, /needs a token with the scope "admin"/)
  }
  await page.getByText('node-1 holds it, 1 waiting').waitFor()
})

/** One entry in each view, under foreign names. */
async function fill(client: Client, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const key = { operation: name, resource: name }
    const token = await standInLine(client, key, [name, `2 ${name}`])
    await client.locks.renew({ ...key, node: name, token, progress: { note: name } })
    await client.once.claim({ key: name })
    const job = { kind: name, queue: name, payload: { [`- ${name}`]: name }, tags: [name.slice(0, 60)] }
    await client.jobs.schedules.set(name, { cron: '0 9 * * 1,3', timeZone: 'Asia/Shanghai', job })
  }
}

test('names full of markup show as text in each of the views, and none of it runs', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await page.addInitScript(() => {
    ;(window as { ran?: string[] }).ran = []
    window.alert = (text) => void (window as { ran?: string[] }).ran!.push(text)
  })
  const names = [...scriptPayloads.slice(0, 5), '__proto__', 'safe\u202egpj.exe']
  await fill(client, names)
  const first = encodeURIComponent(names[1]!)
  const places = [
    '/locks',
    `/locks?operation=${first}&resource=${first}`,
    '/once',
    '/schedules',
    `/schedules?name=${first}`,
  ]
  for (const place of places) {
    await dashboard.visit(place)
    const shown = place.includes('=') ? names.slice(1, 2) : names
    for (const name of shown)
      await page.getByText(name.replace('\u202e', '⟨U+202E⟩'), { exact: true }).first().waitFor()
    assert.deepEqual(await page.evaluate(() => (window as { ran?: string[] }).ran), [], place)
    assert.equal(await page.locator('main img, main script, main svg[onload]').count(), 0)
  }
  await page.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('dialog', { name: `Remove ${names[1]}?` }).waitFor()
})

test('the views work in Chinese, in dark mode and on a phone, and give advice when they are empty', async () => {
  await using dashboard = await openDashboard({
    context: { locale: 'zh-CN', colorScheme: 'dark', viewport: { width: 390, height: 800 } },
  })
  const { page, client } = dashboard
  const fits = async (place: string) => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    assert.ok(wide <= 0, `${place} is ${wide} px wider than the page`)
  }
  for (const [place, title] of [
    ['/locks', '当前没有锁'],
    ['/once', '还没有幂等键'],
    ['/schedules', '还没有定时计划'],
  ] as const) {
    await dashboard.visit(place)
    await page.getByText(title).waitFor()
    await fits(place)
  }
  await expectNoViolations(page)
  await fill(client, ['a-name-that-is-rather-long-and-goes-on-and-on-for-more-than-a-phone-is-wide'])
  const key = encodeURIComponent(
    'a-name-that-is-rather-long-and-goes-on-and-on-for-more-than-a-phone-is-wide',
  )
  for (const [place, text] of [
    ['/locks', '1 个等待'],
    [`/locks?operation=${key}&resource=${key}`, '驱逐持有者'],
    ['/once', '执行中'],
    ['/schedules', '启用'],
    [`/schedules?name=${key}`, '周一和周三 09:00'],
  ] as const) {
    await dashboard.visit(place)
    await page.getByText(text).filter({ visible: true }).first().waitFor()
    await fits(place)
    if (place !== '/locks' && place !== '/schedules') await expectNoViolations(page)
  }
  await page.getByRole('button', { name: '修改' }).click()
  await page.getByLabel('Cron 表达式').waitFor()
  await fits('the form')
  await expectNoViolations(page)
})
