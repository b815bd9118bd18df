import {
  type Client,
  connectNode,
  isSignalboxError,
  type NodeConnection,
} from '../../src/http/client/index.ts'
import { scriptPayloads } from './script-payloads.ts'

/** Texts that would run, load, turn or break out; the last ones are not taken as names. */
export const payloads: readonly string[] = [
  ...scriptPayloads,
  'safe\u202egpj.exe\u202c',
  '\u2066<b onclick=alert(42)>\u2069',
  'zero\u200bwidth\ufefftext',
  '\u0000\u001b[31m<img src=x onerror=alert(44)>\u0007\u007f',
  `</textarea></script></style></title>${'<svg onload=alert(45)>'.repeat(2_000)}`,
]

/** The same as a name: short, and without control characters. */
export const names: readonly string[] = payloads.map((text) => text.replaceAll(/\p{Cc}/gu, '').slice(0, 60))

/** The stored texts, and which of them were accepted. */
export interface Seeded extends AsyncDisposable {
  readonly taken: ReadonlyMap<string, number>
  readonly jobIds: readonly string[]
  readonly taskIds: readonly string[]
}

/** Puts every text into every stored field that is shown. */
export async function seedMarkup(client: Client, url: string, token: string): Promise<Seeded> {
  const counted = new Map<string, number>()
  const nodes: NodeConnection[] = []
  const put = async <Value>(field: string, write: () => Promise<Value>): Promise<Value | undefined> => {
    try {
      const value = await write()
      counted.set(field, (counted.get(field) ?? 0) + 1)
      return value
    } catch (error) {
      // A name that is refused is not shown.
      if (!isSignalboxError(error, 'invalid_argument')) throw error
      counted.set(field, counted.get(field) ?? 0)
      return undefined
    }
  }
  const jobIds: string[] = []
  const taskIds: string[] = []
  const each = async (write: (text: string, name: string, nth: number) => Promise<unknown>) => {
    await Promise.all(payloads.map((text, nth) => write(text, names[nth]!, nth)))
  }
  await each(async (text, name) => {
    const added = await put('job', () =>
      client.jobs.add(
        name,
        { [`- ${text}`]: text },
        { queue: name, tags: [name], uniqueKey: name, limitKey: name, maxAttempts: 1 },
      ),
    )
    if (added !== undefined) jobIds.push(added.id)
  })
  await each(async (text, name) => {
    const [job] = await client.jobs.claim({ queues: [name], workerId: name })
    if (job === undefined) return
    await put('note', () =>
      client.jobs.note(job, { progress: { percent: 5, note: name }, logs: [{ text }, { text: name }] }),
    )
    const error = { name: text, message: text, stack: text, code: text }
    await client.jobs.nack(job, { error })
  })
  await each((text, name) =>
    put('schedule', () =>
      client.jobs.schedules.set(name, {
        ...{ cron: '0 4 * * *' },
        job: { kind: name, queue: name, payload: { [name]: text } },
      }),
    ),
  )
  await each(async (text, name) => {
    const key = { operation: name, resource: name }
    const turn = await put('lock', () => client.locks.acquire({ ...key, node: name, ttlMs: '10m' }))
    await put('waiter', () => client.locks.acquire({ ...key, node: `2 ${name}`, want: 'turn' }))
    if (turn?.status !== 'granted') return
    const progress = { percent: 5, note: text }
    await put('lock progress', () => client.locks.renew({ ...key, node: name, token: turn.token, progress }))
  })
  await each(async (text, name) => {
    const claimed = await put('once', () => client.once.claim({ key: name }))
    if (claimed?.status === 'run')
      await put('once result', () => client.once.done({ key: name, token: claimed.token, result: text }))
  })
  await each(async (text, name, nth) => {
    const venues = (state: unknown) => [{ venueId: name, state }]
    const report = { source: name, timeSlot: name, observedAt: Date.now() }
    await put('subscription', () =>
      client.monitor.subscribe({
        ...{ name, match: { source: name, venueId: { prefix: name }, timeSlot: [name, 'x'] } },
        channel: { type: 'webhook', url: 'http://127.0.0.1:1/x', secret: 'a-secret-of-the-webhook' },
        maxRetries: 0,
      }),
    )
    await put('report', () => client.monitor.report({ ...report, taskId: name, venues: venues(nth) }))
    await put('report', () =>
      client.monitor.report({ ...report, taskId: `${name} 2`, venues: venues({ [name]: text }) }),
    )
    await put('silence', () =>
      client.monitor.silence({ match: { source: name }, forMs: '1h', comment: name }),
    )
    await put('token', () => client.tokens.create({ name, scope: 'work', nodes: [name] }))
  })
  await each(async (text, name) => {
    const offer = { services: [{ name: 'echo', slots: 1, tags: { word: [name] } }], labels: { word: name } }
    const onTask = () => Promise.resolve({ [name]: text })
    const node = await put('node', () => connectNode(url, { ...offer, nodeId: name, token, onTask }))
    if (node !== undefined) nodes.push(node)
    await put('pool', () => client.dispatch.definePool({ name, requires: [{ label: 'word', in: [name] }] }))
    const task = await put('task', () =>
      client.dispatch.submit({ service: 'echo', payload: { [name]: text }, tenant: name, session: name }),
    )
    if (task !== undefined) taskIds.push(task.taskId)
    await put('unplaced task', () =>
      client.dispatch.submit({ service: name, requires: [{ label: 'word', in: [name] }] }),
    )
  })
  return {
    taken: counted,
    jobIds,
    taskIds,
    async [Symbol.asyncDispose]() {
      await Promise.all(nodes.map((node) => node[Symbol.asyncDispose]()))
    },
  }
}
