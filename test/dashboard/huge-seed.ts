import { type Client, connectNode, type NodeConnection } from '../../src/http/client/index.ts'
import type { Box } from '../../src/index.ts'

/** As long as a name may be, with its number in front. */
export const longName = (nth: number): string => `${nth}-`.padStart(7, '0').padEnd(191, 'long-name-')

/** A tag is shorter. */
const longTag = (nth: number): string => longName(nth).slice(0, 64)

const parts = ['decisions', 'notifications', 'subscriptions', 'venues', 'silences', 'alerts'] as const

/** The addresses of all views except those of a single thing. */
export const listPaths: readonly string[] = [
  ...['', 'queues', 'jobs', 'schedules', 'errors', 'workers', 'locks', 'once', 'nodes', 'tasks'],
  ...parts.map((part) => `monitor?part=${part}`),
  ...['contention', 'audit', 'settings'],
]

/** What is in a huge server, and the addresses of its views: lists first, then single things. */
export interface Huge extends AsyncDisposable {
  readonly paths: readonly string[]
}

const jobCount = 100_000
const lockCount = 500
const nodeCount = 200

/**
 * Fills a server: 100,000 jobs in 60 queues, 500 locks, 200 nodes, and a page or more of all else, with names of 191
 * characters. It stays as it is, so that a reader of one view has the same before him as the next.
 */
export async function seedHuge(client: Client, box: Box, url: string, token: string): Promise<Huge> {
  const jobId = await seedJobs(client)
  await seedWorkers(client, box)
  await seedSchedules(client)
  await seedLocks(client)
  await seedOnce(client)
  await seedMonitor(client)
  const { nodes, taskId } = await seedFleet(client, url, token)
  for (let nth = 0; nth < 12; nth++) await client.tokens.create({ name: longName(nth), scope: 'work' })
  const { items } = await client.jobs.errorGroups()
  const query = (one: Readonly<Record<string, string>>) => new URLSearchParams(one).toString()
  const [first] = [longName(0)]
  const things = [
    `queue?${query({ name: first })}`,
    `job?id=${jobId}`,
    `schedules?${query({ name: first })}`,
    `errors?group=${items[0]!.fingerprint}`,
    `workers?${query({ id: first })}`,
    `locks?${query({ operation: first, resource: longName(lockCount - 1) })}`,
    `monitor?${query({ source: first, timeSlot: first, venueId: first })}`,
    `nodes?${query({ id: first })}`,
    `tasks?id=${taskId}`,
  ]
  return {
    paths: [...listPaths, ...things].map((path) => `/${path}`),
    [Symbol.asyncDispose]: async () => {
      await Promise.all(nodes.map((node) => node[Symbol.asyncDispose]()))
    },
  }
}

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, nth) => nth)

/** Does many things at once, a few at a time. */
async function many(count: number, act: (nth: number) => Promise<unknown>): Promise<void> {
  const left = range(count)[Symbol.iterator]()
  await Promise.all(
    range(16).map(async () => {
      for (const nth of left) await act(nth)
    }),
  )
}

/** Returns the id of a job that has something in every part of its page. */
async function seedJobs({ jobs }: Client): Promise<string> {
  // Failed jobs come first, so that every list has some on a later page and the errors have groups.
  const queue = longName(59)
  const failing = { queue, maxAttempts: 1, tags: [longTag(1), longTag(2)] }
  await jobs.addMany(range(60).map((nth) => ({ ...failing, kind: longName(nth % 40) })))
  const claimed = await jobs.claim({ queues: [queue], limit: 60, workerId: longName(7) })
  await many(60, async (nth) => {
    const name = `Error${longName(nth % 30)}`
    const stack = range(30).map(
      (line) => `    at ${longName(line)} (/srv/app/${longName(nth % 30)}.ts:${line}:1)`,
    )
    const error = { name, message: `${name} ${name} ${name}`, code: name, stack: stack.join('\n') }
    await jobs.nack(claimed[nth]!, { error })
  })
  for (let at = 0; at < jobCount; at += 1_000)
    await jobs.addMany(range(1_000).map((nth) => ({ kind: longName(nth % 40), queue: longName(nth % 60) })))
  for (const nth of [3, 4, 5]) await jobs.pause(longName(nth))
  const rate = { count: 1_000_000, perMs: '24h' } as const
  await jobs.setLimits(longName(1), { concurrency: 1_000_000, rate, perKey: { concurrency: 100_000, rate } })

  const whole = `whole${longName(0)}`.slice(0, 191)
  const before = await jobs.add(longName(0), {}, { queue: whole })
  const { id } = await jobs.add(
    longName(0),
    Object.fromEntries(range(40).map((nth) => [longName(nth), longName(nth)])),
    {
      ...{
        queue: whole,
        tags: range(8).map(longTag),
        uniqueKey: longName(0),
        limitKey: longName(0),
        after: before.id,
      },
      ...{
        lock: { operation: longName(0), resource: longName(0) },
        maxAttempts: 9,
        timeoutMs: '5m',
        priority: 1_000,
      },
    },
  )
  await jobs.addMany(range(12).map((nth) => ({ kind: longName(nth), queue: whole, after: id })))
  const [first] = await jobs.claim({ queues: [whole] })
  await jobs.ack(first!)
  for (const nth of range(4)) {
    const [job] = await jobs.claim({ queues: [whole], workerId: longName(nth), waitMs: 30_000 })
    const logs = range(20).map((line) => ({
      text: `${longName(line)} ${longName(line)}`,
      level: 'warn' as const,
    }))
    await jobs.note(job!, { progress: { percent: 42, note: longName(nth) }, logs })
    const name = `Error${longName(nth)}`
    const error = {
      name,
      message: `${name} ${name}`,
      code: name,
      stack: longName(nth).repeat(9),
      details: { name },
    }
    await jobs.nack(job!, { error, retryInMs: nth === 3 ? '1h' : 1 })
  }
  return id
}

async function seedWorkers({ jobs }: Client, box: Box): Promise<void> {
  const queue = 'of-workers'
  await jobs.addMany(range(150).map((nth) => ({ kind: longName(nth % 40), queue })))
  await many(60, (nth) =>
    jobs.claim({ queues: [queue], limit: 1 + (nth % 4), workerId: longName(nth), leaseMs: '1h' }),
  )
  const handlers = Object.fromEntries(range(20).map((nth) => [longName(nth), () => undefined]))
  const worker = box.jobs.worker({
    ...{ queues: range(20).map((nth) => `idle${longName(nth)}`.slice(0, 191)), handlers, concurrency: 1_000 },
    ...{ workerId: `library${longName(0)}`.slice(0, 191), release: longName(0).slice(0, 100) },
  })
  await worker.start()
}

async function seedSchedules({ jobs }: Client): Promise<void> {
  await many(40, (nth) =>
    jobs.schedules.set(longName(nth), {
      ...(nth % 2 === 0
        ? { everyMs: '36h' }
        : { cron: '0 9 * * 1-5', timeZone: 'America/Argentina/Buenos_Aires' }),
      job: {
        kind: longName(nth),
        queue: longName(nth),
        payload: { [longName(1)]: longName(2) },
        tags: [longTag(3)],
      },
    }),
  )
  for (const nth of [1, 2]) await jobs.schedules.pause(longName(nth))
}

async function seedLocks({ locks }: Client): Promise<void> {
  await many(lockCount, async (nth) => {
    const key = { operation: longName(nth % 3), resource: longName(nth), node: longName(nth) }
    const turn = await locks.acquire({ ...key, ttlMs: '1h' })
    if (turn.status !== 'granted' || nth % 10 !== 0) return
    const progress = { percent: 67, note: longName(nth) }
    await locks.renew({ ...key, token: turn.token, progress })
  })
  // They do not ask again, so they leave; the contention remembers their wait.
  const last = { operation: longName((lockCount - 1) % 3), resource: longName(lockCount - 1) }
  await many(4, (nth) => locks.acquire({ ...last, node: longName(nth), want: 'turn' }))
}

async function seedOnce({ once }: Client): Promise<void> {
  await many(60, async (nth) => {
    const key = longName(nth)
    const claimed = await once.claim({
      key,
      leaseMs: '1h',
      mode: nth % 2 === 0 ? 'at-least-once' : 'at-most-once',
    })
    if (claimed.status !== 'run' || nth % 3 === 0) return
    const { token } = claimed
    if (nth % 3 === 1) await once.done({ key, token, result: longName(nth) })
    else await once.fail({ key, token })
  })
}

async function seedMonitor({ monitor }: Client): Promise<void> {
  const source = longName(0)
  await many(12, (nth) =>
    monitor.subscribe({
      ...{ name: longName(nth), maxRetries: 0, windowMs: '2h', digest: undefined },
      match: {
        source: nth < 2 ? source : longName(nth),
        venueId: { prefix: '0' },
        timeSlot: [longName(0), longName(1)],
      },
      throttle: { max: 1_000, perMs: '24h' },
      flap: { changes: 20, withinMs: '24h' },
      channel: { type: 'webhook', url: 'http://127.0.0.1:1/x', secret: 'a-secret-of-the-webhook' },
    }),
  )
  for (const round of range(2)) {
    const venues = range(60).map((nth) => ({
      venueId: longName(nth),
      state: { [longName(round)]: longName(nth + round) },
    }))
    const report = { source, timeSlot: longName(0), observedAt: Date.now() + round, taskId: longName(round) }
    await monitor.report({ ...report, venues })
  }
  await many(12, (nth) =>
    monitor.silence({
      match: { source: longName(nth + 1), venueId: longName(nth) },
      forMs: '8h',
      comment: longName(nth),
    }),
  )
}

async function seedFleet({ dispatch }: Client, url: string, token: string) {
  const nodes: NodeConnection[] = []
  await many(nodeCount, async (nth) => {
    nodes.push(
      await connectNode(url, {
        ...{ nodeId: longName(nth), token, load: () => ({ cpu: 0.42, memory: 0.76, gpu: 0.5 }) },
        services: [
          { name: longName(1), slots: 64, tags: { language: range(3).map(longName) } },
          { name: longName(2), slots: 2 },
        ],
        labels: Object.fromEntries(range(6).map((label) => [longName(label).slice(0, 63), longName(label)])),
        // Tasks go on until the node leaves.
        onTask: (_task, { signal }) => new Promise((resolve) => signal.addEventListener('abort', resolve)),
      }),
    )
  })
  await dispatch.cordon(longName(nodeCount - 1))
  await many(12, (nth) =>
    dispatch.definePool({
      name: longName(nth),
      requires: [
        { label: longName(1).slice(0, 63), in: range(5).map(longName) },
        { label: longName(2).slice(0, 63), in: [longName(nth)] },
      ],
    }),
  )
  await many(40, (nth) =>
    dispatch.submit({
      service: longName(1),
      payload: { nth },
      tenant: longName(nth),
      session: longName(nth),
    }),
  )
  const { taskId } = await dispatch.submit({
    ...{ service: longName(1), payload: longName(0), tenant: longName(0) },
    requires: [
      { label: longName(1).slice(0, 63), in: [longName(99)] },
      { service: longName(2), where: { language: longName(3) } },
    ],
    prefers: [{ label: longName(1).slice(0, 63), in: [longName(1)] }],
  })
  return { nodes, taskId }
}
