import assert from 'node:assert/strict'
import { test } from 'vitest'
import { paneOf, queueRates } from './panes.ts'

const worker = {
  ...{
    id: 'mailer',
    workerId: 'mailer',
    state: 'running',
    wanted: 'run',
    via: 'library',
    host: 'vm',
    pid: 7,
  },
  ...{ queues: ['mail'], kinds: null, concurrency: 3, runningCount: 2, release: '2.4', version: null },
  ...{ startedAt: 0, seenAt: 9_000, leaseEndsAt: 40_000 },
  running: [
    { id: 'a', kind: 'mail', since: 1 },
    { id: 'b', kind: 'mail', since: 2 },
  ],
}

test('workers show their running jobs; live ones can be quieted, resumed and stopped', async () => {
  const asked: string[] = []
  const jobs = {
    workers: async () => ({
      items: [
        { ...worker, id: 'gone', state: 'gone' },
        { ...worker, id: 'quiet', state: 'quiet', wanted: 'quiet' },
        worker,
      ],
      cursor: null,
      at: 10_000,
    }),
    quietWorker: async (id: string) => asked.push(`quiet ${id}`),
    resumeWorker: async (id: string) => asked.push(`resume ${id}`),
    stopWorker: async (id: string) => asked.push(`stop ${id}`),
  }
  const box = { jobs } as never
  const { rows } = await paneOf('workers').look(box)
  assert.deepEqual(
    rows.map(({ id, isAlert, acts }) => [id, isAlert, Object.keys(acts)]),
    [
      ['mailer', false, ['P', 'S']],
      ['quiet', true, ['P', 'S']],
      ['gone', true, []],
    ],
  )
  assert.deepEqual(rows[0]!.cells, ['mailer', 'running', 'vm 7', '2.4', '2/3', 'mail', 'mail 2', '1 s'])
  await rows[0]!.acts.P!.perform(box)
  await rows[1]!.acts.P!.perform(box)
  await rows[0]!.acts.S!.perform(box)
  assert.deepEqual(asked, ['quiet mailer', 'resume quiet', 'stop mailer'])
})

test('tasks that have not ended can be cancelled', async () => {
  const task = { service: 'asr', nodeId: null, attempt: 1, submittedAt: Date.now() }
  const items = [
    { ...task, taskId: 't1', status: 'waiting' },
    { ...task, taskId: 't2', status: 'failed', nodeId: 'n1' },
  ]
  const dispatch = {
    tasks: async () => ({ items, cursor: null }),
    cancel: async () => ({ status: 'cancelled' }),
  }
  const box = { dispatch } as never
  const { rows } = await paneOf('tasks').look(box)
  assert.deepEqual(
    rows.map(({ id, acts, isAlert }) => [id, Object.keys(acts), isAlert]),
    [
      ['t1', ['X'], false],
      ['t2', [], true],
    ],
  )
  assert.equal(await rows[0]!.acts.X!.perform(box), 'the task t1 is cancelled')
})

test('rates of queues are per second of the requested period, and missing without a series', async () => {
  const total = { added: 240, completed: 100, failed: 10, dead: 10 }
  const metrics = { series: async () => ({ items: [{ queue: 'mail', total }], from: 0, now: 120_000 }) }
  const rates = await queueRates({ metrics } as never)
  assert.deepEqual(rates!.get('mail'), { addedPerSecond: 2, endedPerSecond: 1 })
  assert.equal(await queueRates({} as never), undefined)
})
