import assert from 'node:assert/strict'
import type { Locator } from 'playwright-core'
import { test } from 'vitest'
import { type ConnectNodeOptions, connectNode, type NodeConnection } from '../../src/http/client/index.ts'
import { type Dashboard, expectNoViolations, openDashboard } from './dashboard.ts'
import { scriptPayloads } from './script-payloads.ts'

/** A node that keeps its tasks until they are stopped, unless it gets other behaviour. */
function join(
  { url }: Dashboard,
  nodeId: string,
  options: Partial<ConnectNodeOptions> = {},
): Promise<NodeConnection> {
  return connectNode(url, {
    nodeId,
    services: [{ name: 'asr', slots: 2, tags: { language: ['zh', 'en'] } }],
    onTask: (_, { signal }) => new Promise((resolve) => signal.addEventListener('abort', resolve)),
    ...options,
  })
}

/** The node as the server shows it, once it is as wanted. */
async function seen(
  { client }: Dashboard,
  nodeId: string,
  isWanted: (node: Awaited<ReturnType<typeof client.dispatch.drain>>) => boolean,
): Promise<void> {
  for (;;) {
    const { items } = await client.dispatch.nodes({ nodeId })
    if (items[0] !== undefined && isWanted(items[0])) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Waits until a task is in a node's hands. */
async function begun({ client }: Dashboard, taskId: string): Promise<void> {
  const ending = new AbortController()
  await client.dispatch.watch(
    taskId,
    ({ type }) => {
      if (type === 'running') ending.abort()
    },
    { signal: ending.signal },
  )
}

/** Presses the button of the dialog, and waits until it has closed. */
async function confirm(dialog: Locator, act: string): Promise<void> {
  await dialog.getByRole('button', { name: act, exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
}

test('without nodes the view shows how to connect one; a connected node shows slots, load and labels', async () => {
  await using dashboard = await openDashboard()
  const { page, client, url } = dashboard
  await dashboard.visit('/nodes')
  await page.getByText('No nodes are connected').waitFor()
  const snippet = page.getByRole('region', { name: 'How to connect a node' })
  assert.match(
    (await snippet.textContent())!,
    new RegExp(`connectNode\\('${url.replace('http', 'ws')}/v1/nodes/connect'`),
  )
  await page.getByText('No pools yet').waitFor()
  await expectNoViolations(page)

  await using _ = await join(dashboard, 'gpu-1', {
    labels: { region: 'eu', memoryGb: 48 },
    load: () => ({ cpu: 0.25, gpu: 0.5 }),
  })
  const { taskId } = await client.dispatch.submit({ service: 'asr' })
  await begun(dashboard, taskId)
  const row = page.getByRole('row', { name: /gpu-1/ })
  await row.getByRole('img', { name: 'asr: 1 of 2 slots in use' }).waitFor()
  await row.getByText('ready').waitFor()
  await row.getByText('memoryGb 48').waitFor()
  await row.getByText('this server').waitFor()
  // Now, not at the next poll.
  await page.keyboard.press('r')
  await page.getByRole('table', { name: 'Node types' }).getByText('language: en, zh').waitFor()
  await page.getByLabel('Service').fill('nmt')
  await page.keyboard.press('Enter')
  await page.getByText('No node offers "nmt"').waitFor()
  await page.getByRole('button', { name: 'Clear filters' }).click()
  await row.getByRole('link', { name: 'gpu-1' }).click()
  await page.getByRole('heading', { level: 1, name: 'gpu-1' }).waitFor()
  await page.getByRole('heading', { name: 'Running tasks (1)' }).waitFor()
  await page.getByRole('link', { name: taskId }).waitFor()
  await expectNoViolations(page)
  await dashboard.visit('/nodes?id=unknown')
  await page.getByText('No such node').waitFor()
})

test('a user drains a node with a deadline, cordons it or one service, and reverses both', async () => {
  // The browser writes about the deadline that is none.
  await using dashboard = await openDashboard({ expected: /400/ })
  const { page, client } = dashboard
  await using _ = await join(dashboard, 'gpu-1')
  const { taskId } = await client.dispatch.submit({ service: 'asr' })
  await begun(dashboard, taskId)
  await seen(dashboard, 'gpu-1', ({ taskIds }) => taskIds.length === 1)
  await dashboard.visit('/nodes?id=gpu-1')
  const button = (name: string) => page.getByRole('button', { name, exact: true })

  await button('Drain').click()
  const drain = page.getByRole('dialog', { name: 'Drain gpu-1 with 1 running task?' })
  await drain.getByLabel('Deadline').fill('soon')
  await drain.getByRole('button', { name: 'Drain', exact: true }).click()
  await drain.getByRole('alert').waitFor()
  await drain.getByLabel('Deadline').fill('30m')
  await confirm(drain, 'Drain')
  await seen(dashboard, 'gpu-1', ({ draining }) => draining)
  await page.getByText('draining', { exact: true }).waitFor()
  await button('Stop draining').click()
  await confirm(page.getByRole('dialog', { name: 'Stop draining gpu-1' }), 'Stop draining')
  await seen(dashboard, 'gpu-1', ({ draining }) => !draining)

  await page.locator('.page-head').getByRole('button', { name: 'Cordon' }).click()
  await confirm(page.getByRole('dialog', { name: 'Cordon gpu-1 with 1 running task?' }), 'Cordon')
  await seen(dashboard, 'gpu-1', ({ cordoned }) => cordoned)
  await button('Uncordon').click()
  await confirm(page.getByRole('dialog', { name: 'Uncordon gpu-1 with 1 running task?' }), 'Uncordon')
  await seen(dashboard, 'gpu-1', ({ cordoned }) => !cordoned)

  await button('Cordon asr').click()
  await confirm(page.getByRole('dialog', { name: 'Cordon asr on gpu-1 with 1 slot in use?' }), 'Cordon')
  await seen(dashboard, 'gpu-1', ({ cordoned, services }) => !cordoned && services[0]!.cordoned)
  await button('Uncordon asr').click()
  await confirm(page.getByRole('dialog', { name: 'Uncordon asr on gpu-1' }), 'Uncordon')
  await seen(dashboard, 'gpu-1', ({ services }) => !services[0]!.cordoned)
  assert.equal((await client.dispatch.task(taskId)).status, 'running')
  assert.equal((await client.audit.list({ action: 'node.cordon' })).items.length, 4)
})

test('a pool is defined by conditions, changed as JSON, and removed after a question that names its nodes', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await using _ = await join(dashboard, 'gpu-1', { labels: { region: 'eu', memoryGb: 48 } })
  await dashboard.visit('/nodes')
  await page.getByRole('button', { name: 'Define a pool' }).click()
  const form = page.getByRole('dialog', { name: 'Define a pool' })
  await form.getByLabel('Name').first().fill('eu-large')
  const first = form.getByRole('group', { name: 'Condition 1' })
  await first.getByLabel('Name').fill('region')
  await form.getByRole('button', { name: 'Save' }).click()
  await form.getByRole('alert').getByText('The condition on "region" needs a value.').waitFor()
  await first.getByLabel('Value').fill('eu, us')
  await form.getByRole('button', { name: 'Add a condition' }).click()
  const second = form.getByRole('group', { name: 'Condition 2' })
  await second.getByLabel('Condition type').selectOption('From')
  await second.getByLabel('Name').fill('memoryGb')
  await second.getByLabel('Value').fill('40')
  await expectNoViolations(page)
  await confirm(form, 'Save')
  const rule = async () => (await client.dispatch.pools()).items.find(({ name }) => name === 'eu-large')
  assert.deepEqual((await rule())?.requires, [
    { label: 'region', in: ['eu', 'us'] },
    { label: 'memoryGb', gte: 40 },
  ])
  await page.getByText('memoryGb at least 40').waitFor()

  await page.getByRole('button', { name: 'Change eu-large' }).click()
  const change = page.getByRole('dialog', { name: 'Change eu-large' })
  await change.getByRole('button', { name: 'Edit as JSON' }).click()
  await change.getByLabel('Rule as JSON').fill('[{ "any": [{ "label": "region", "in": ["eu"] }] }]')
  await confirm(change, 'Save')
  assert.deepEqual((await rule())?.requires, [{ any: [{ label: 'region', in: ['eu'] }] }])
  await page.getByText('any of (region in eu)').waitFor()

  await page.getByRole('button', { name: 'Remove eu-large' }).click()
  await confirm(page.getByRole('dialog', { name: 'Remove the pool eu-large with 1 node?' }), 'Remove')
  assert.equal(await rule(), undefined)
  await page.getByText('No pools yet').waitFor()
})

test('tasks are listed by status, and an ended task shows its result', async () => {
  // The browser writes about what is not found.
  await using dashboard = await openDashboard({ expected: /404/ })
  const { page, client } = dashboard
  await dashboard.visit('/tasks')
  await page.getByText('No tasks yet').waitFor()
  await expectNoViolations(page)
  await using _ = await join(dashboard, 'ocr-1', {
    services: [{ name: 'ocr', slots: 1 }],
    onTask: ({ payload }) => {
      if (payload === 'good') return { pages: 3 }
      throw Object.assign(new Error('the page is blank'), { code: 'blank', retryable: false })
    },
  })
  const submit = (service: string, payload: string) => client.dispatch.submit({ service, payload })
  const [good, bad, odd] = [
    await submit('ocr', 'good'),
    await submit('ocr', 'bad'),
    await submit('tts', 'odd'),
  ]
  const { taskId: dropped } = await submit('tts', 'dropped')
  await client.dispatch.cancel(dropped, { reason: 'not needed' })
  for (const { taskId } of [good, bad]) await client.dispatch.watch(taskId, () => undefined)

  const rows = page.getByRole('table', { name: 'Tasks' }).locator('tbody tr')
  const listed = [
    ['completed', good.taskId, 'ocr-1'],
    ['failed', bad.taskId, 'blank: the page is blank'],
    ['cancelled', dropped, 'cancelled: not needed'],
    ['waiting', odd.taskId, 'waiting'],
  ] as const
  for (const [status, taskId, word] of listed) {
    await page.getByLabel('Status').selectOption(status)
    await page.getByText('1 task on this page').waitFor()
    await rows.getByTitle(taskId, { exact: true }).waitFor()
    await rows.getByText(word).waitFor()
    assert.equal(new URL(page.url()).search, `?status=${status}`)
  }
  await page.getByLabel('Status').selectOption('')
  await page.getByText('4 tasks on this page').waitFor()
  await expectNoViolations(page)

  await rows.getByTitle(bad.taskId, { exact: true }).click()
  await page.getByText('the page is blank').waitFor()
  await page.getByRole('region', { name: 'Payload' }).getByText('"bad"').waitFor()
  const cancel = page.getByRole('button', { name: 'Cancel task' })
  assert.match((await cancel.getAttribute('title'))!, /has already finished/)
  await dashboard.visit(`/tasks?id=${good.taskId}`)
  await page.getByRole('region', { name: 'Output' }).getByText('"pages": 3').waitFor()
  await dashboard.visit('/tasks?id=no-such-task')
  await page.getByText('No such task').waitFor()
})

test('a waiting task shows its reason and its live events, until it starts or is cancelled', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  await using _ = await join(dashboard, 'gpu-1', { labels: { region: 'us' } })
  const { taskId } = await client.dispatch.submit({
    service: 'asr',
    uses: { asr: 2 },
    requires: [{ label: 'region', in: ['eu'] }],
    payload: { audio: 'call-17' },
    tenant: 'acme',
  })
  await dashboard.visit(`/tasks?id=${taskId}`)
  const steps = page.locator('.tasks-funnel').getByRole('listitem')
  await steps.filter({ hasText: 'Connected nodes' }).getByText('1 node', { exact: true }).waitFor()
  await steps.filter({ hasText: 'service asr with 2 slots' }).getByText('met by all').waitFor()
  await steps.filter({ hasText: 'region in eu' }).getByText('not met by 1 node').waitFor()
  await page.getByText('A node connects or changes its offer').waitFor()
  await page.getByText('gpu-1 does not meet: region in eu').waitFor()
  await page.getByText('acme', { exact: true }).waitFor()
  await page.getByText('asr × 2').waitFor()
  await expectNoViolations(page)

  await using __ = await join(dashboard, 'gpu-2', {
    labels: { region: 'eu' },
    onTask: (_task, { signal, progress }) => {
      progress(40, 'chunk 2 of 5')
      return new Promise((resolve) => signal.addEventListener('abort', resolve))
    },
  })
  await page.locator('.tasks-progress').getByText('chunk 2 of 5').waitFor()
  await page.getByRole('meter', { name: 'Progress: 40%' }).waitFor()
  await page.getByRole('table', { name: 'Live events' }).getByText('progress', { exact: true }).waitFor()
  await steps.first().waitFor({ state: 'detached' })
  await page.locator('.facts').getByRole('link', { name: 'gpu-2' }).waitFor()

  await page.getByRole('button', { name: 'Cancel task' }).click()
  const dialog = page.getByRole('dialog', { name: 'Cancel 1 task?' })
  await dialog.getByLabel('Reason').fill('the call is over')
  await confirm(dialog, 'Cancel task')
  const { status, error } = await client.dispatch.task(taskId)
  assert.deepEqual([status, error?.message], ['cancelled', 'the call is over'])
  await page.locator('.card').getByText('the call is over').waitFor()
  await expectNoViolations(page)
})

test('the contention view shows who waits for whom in numbers, with holders, kinds, lanes and locks', async () => {
  await using dashboard = await openDashboard()
  const { page, client, stage } = dashboard
  const { contention } = stage.box
  const rebuild = contention.kind('rebuild', { lane: 'registry', size: 1 })
  const place = contention.kind('place', { lane: 'registry', size: 1 })
  const at = performance.now() - 2_000
  contention.turn(rebuild, at, at, at + 500, 'all pools')
  contention.turn(place, at, at + 500, at + 501, 'task 7')
  for (const node of ['ci-1', 'ci-2'])
    await client.locks.acquire({ operation: 'deploy', resource: 'web', node, ttlMs: '5m' })
  await dashboard.visit('/contention')
  const row = page.getByRole('region', { name: 'Waiters and holders' }).getByRole('row', { name: /^place/ })
  await row.getByTitle(/^place waited \d+ ms for rebuild, 1 wait$/).waitFor()
  const holders = page.locator('.contention-holders')
  await holders
    .getByRole('listitem', { name: /^rebuild:/ })
    .getByText(/^\d+ ms$/)
    .waitFor()
  await page.getByRole('row', { name: /place task 7/ }).waitFor()
  await page
    .getByRole('table', { name: 'Lanes' })
    .getByRole('row', { name: /^registry/ })
    .waitFor()
  const kind = page.getByRole('table', { name: 'Commands' }).getByRole('row', { name: /^place/ })
  await kind
    .getByRole('img', { name: /^1 in total: p50 \d+ ms/ })
    .first()
    .waitFor()
  const lock = page.getByRole('row', { name: /deploy web/ })
  await lock.getByText(/^ci-2/).waitFor()
  assert.equal(await lock.getByRole('link').getAttribute('href'), '/locks?operation=deploy&resource=web')
  await expectNoViolations(page)
})

test('the contention view of a server without waits says so', async () => {
  await using dashboard = await openDashboard()
  const { page, client } = dashboard
  const { since, at, overflow } = await client.contention.snapshot()
  const lists = { holders: [], matrix: [], kinds: [], lanes: [], slowest: [], keys: [] }
  await page.route('**/v1/contention', (route) =>
    route.fulfill({ json: { since, at, ...lists, overflow: { ...overflow, keys: 3 } } }),
  )
  await dashboard.visit('/contention')
  await page.getByText('No waits yet').waitFor()
  await page.getByText('No lock had waiters').waitFor()
  await page.getByText(/exceeded the limits.* 3 locks/).waitFor()
  await expectNoViolations(page)
})

test('all three views work in Chinese, in dark mode and on a phone, and markup in names is text', async () => {
  await using dashboard = await openDashboard({
    context: { locale: 'zh-CN', colorScheme: 'dark', viewport: { width: 390, height: 800 } },
  })
  const { page, client, stage } = dashboard
  await page.addInitScript(() => {
    ;(window as { ran?: string[] }).ran = []
    window.alert = (text) => (window as { ran?: string[] }).ran!.push(String(text))
  })
  const nodes: NodeConnection[] = []
  for (const [nth, text] of scriptPayloads.slice(0, 6).entries()) {
    const node = await join(dashboard, text, {
      services: [{ name: text, slots: nth + 10, tags: { [text]: [text] } }],
      labels: { [text]: `${text}\u202e` },
    })
    nodes.push(node)
  }
  const [text] = scriptPayloads
  await client.dispatch.definePool({ name: text!, requires: [{ label: text!, in: [text!] }] })
  await client.dispatch.cordon(text!)
  const { taskId } = await client.dispatch.submit({
    service: text!,
    requires: [{ label: text!, in: [text!] }],
    payload: { text },
    tenant: text!,
  })
  const kind = stage.box.contention.kind(text!, { lane: text!, size: 1 })
  stage.box.contention.turn(kind, performance.now() - 900, performance.now() - 500, performance.now(), text!)
  const views = [
    ['/nodes', '节点', '就绪'],
    [`/nodes?id=${encodeURIComponent(text!)}`, text!, '已隔离'],
    ['/tasks', '任务', '等待中'],
    [`/tasks?id=${taskId}`, text!, '为何等待'],
    ['/contention', '争用分析', '等待矩阵'],
  ] as const
  for (const [path, title, word] of views) {
    await dashboard.visit(path)
    await page.getByRole('heading', { level: 1, name: title }).waitFor()
    await page.getByText(word).filter({ visible: true }).first().waitFor()
    await page.getByText(text!).first().waitFor()
    const spill = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    assert.ok(spill <= 0, `${path} is ${spill} px too wide`)
    await expectNoViolations(page)
    assert.deepEqual(await page.evaluate(() => (window as { ran?: string[] }).ran), [])
    assert.equal(await page.locator('main img, main script, main iframe, main svg[onload]').count(), 0)
  }
  await Promise.all(nodes.map((node) => node.close()))
})
