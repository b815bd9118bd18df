/** `open('http://…')` and `signalbox/client` as their contract declares them; `tsc` is the test. */
import {
  type Box,
  open,
  type RemoteBox,
  type RemoteHandlerJob,
  type RemoteJobs,
  type RemoteOpenOptions,
} from 'signalbox'
import {
  addJobs,
  type Client,
  claimJobs,
  getJob,
  jobEvents,
  listJobs,
  listQueues,
  pruneJobs,
} from 'signalbox/client'
import type { Ended, HandlerJob, Job, Jobs, WorkerOptions } from 'signalbox/jobs'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Expect<T extends true> = T

// ------------------------------------------------------------------ what `open` gives, by its address
declare function gives<Expected>(): <Actual>(
  opened: Promise<Actual> & (Equal<Actual, Expected> extends true ? unknown : never),
) => void

export function opening(port: number, url: string): void {
  gives<RemoteBox>()(open('http://127.0.0.1:7420'))
  gives<RemoteBox>()(
    open('https://signalbox.example/a/path', { token: 't', namespace: 'n', timeoutMs: '5s' }),
  )
  gives<RemoteBox>()(open(`http://127.0.0.1:${port}` as const, { token: 't' }))
  gives<RemoteBox>()(open(['https://one.example', 'https://two.example'], { token: 't', retries: 3 }))
  // @ts-expect-error a list names servers, not databases
  open(['https://one.example', 'postgres://127.0.0.1/app'])
  gives<Box>()(open('memory:'))
  gives<Box>()(open('sqlite:signalbox.db', { namespace: 'n', migrate: true, retentionMs: '1d' }))
  gives<Box>()(open('postgres://127.0.0.1/app', { migrate: true }))
  // An address of type string is a store's.
  gives<Box>()(open(url))
  gives<Box>()(open(url, { migrate: true }))
  // @ts-expect-error that the comparison can fail
  gives<Box>()(open('http://127.0.0.1:7420'))
}

export type Opened = [
  Expect<
    Equal<
      keyof RemoteOpenOptions,
      'token' | 'namespace' | 'timeoutMs' | 'retries' | 'fetch' | 'jobs' | 'telemetry'
    >
  >,
  Expect<
    Equal<
      keyof RemoteBox,
      | 'jobs'
      | 'locks'
      | 'once'
      | 'monitor'
      | 'dispatch'
      | 'contention'
      | 'metrics'
      | 'warnings'
      | 'ping'
      | 'close'
      | typeof Symbol.asyncDispose
    >
  >,
]

// ------------------------------------------------------------------ the same verbs, but for transactions
export type Verbs = [
  Expect<Equal<keyof RemoteJobs, keyof Jobs>>,
  Expect<Equal<RemoteJobs['find'], Jobs['find']>>,
  Expect<Equal<RemoteJobs['claim'], Jobs['claim']>>,
  Expect<Equal<Awaited<ReturnType<RemoteJobs['ack']>>, Ended>>,
  Expect<Equal<Exclude<keyof HandlerJob, keyof RemoteHandlerJob>, 'transaction'>>,
  Expect<Equal<RemoteHandlerJob<{ to: string }>['payload'], { to: string }>>,
]

export async function program(box: RemoteBox): Promise<void> {
  const { id } = await box.jobs.add('mail', { to: 'Ada' }, { priority: 1, delayMs: '5s', uniqueKey: 'ada' })
  await box.jobs.addMany([{ kind: 'mail', payload: id }])
  const [job] = await box.jobs.claim({ queues: ['default'] })
  if (job) await box.jobs.ack(job, { result: 5 })
  await box.jobs.nack({ id, token: 't' }, { error: new Error('no'), dead: true })
  await using worker = box.jobs.worker({
    concurrency: 5,
    handlers: {
      mail: (given, { signal }) => [given.payload.to, signal.aborted],
      slow: { run: async (given) => given.ack({ result: given.attempt }), finish: 'any' },
      fails: (given) => given.nack({ error: 'no', retryInMs: '1m' }),
    },
  })
  await worker.start()
  box.jobs.wake('default')
  await box.ping()
}

export async function mistakes(box: RemoteBox, tx: object): Promise<void> {
  // @ts-expect-error a job cannot be added in a transaction over HTTP
  await box.jobs.add('mail', {}, { tx })
  // @ts-expect-error nor can many
  await box.jobs.addMany([{ kind: 'mail' }], { tx })
  // @ts-expect-error a job cannot be ended in one
  await box.jobs.ack({ id: 'a', token: 't' }, { tx })
  // @ts-expect-error nor fail in one
  await box.jobs.nack({ id: 'a', token: 't' }, { tx })
  const options = { priority: 1, tx }
  // @ts-expect-error also when the options were made elsewhere
  await box.jobs.add('mail', {}, options)
  // @ts-expect-error there is no transaction of ours either
  box.jobs.worker({ handlers: { charge: (job) => job.transaction(() => 1) } })
  // @ts-expect-error nor one of theirs in a handler
  box.jobs.worker({ handlers: { charge: (job) => job.ack({ tx }) } })
  // @ts-expect-error what must end in a transaction could never end
  box.jobs.worker({ handlers: { charge: { finish: 'transaction', run: () => 1 } } })
  // @ts-expect-error and no transactions are no group of them
  box.jobs.worker({ handlers: { charge: { group: 10, run: () => 1 } } })
  // @ts-expect-error the store is the server's
  box.backend
  // @ts-expect-error a server's schema and retention are its own
  await open('http://127.0.0.1:7420', { migrate: true })
  // @ts-expect-error a store has no token
  await open('sqlite:signalbox.db', { token: 't' })
  // @ts-expect-error a handler that needs transactions is not for a remote worker
  box.jobs.worker({ handlers: { charge: (job: HandlerJob) => job.transaction(() => 1) } })
}

/** A worker that is written for any box works on a store as well. */
export function workerOptions(handlers: Parameters<RemoteJobs['worker']>[0]): WorkerOptions {
  return handlers
}

// ------------------------------------------------------------------ the client, typed by its routes
export async function calls(client: Client): Promise<void> {
  const job = await client.call(getJob, { params: { id: 'a' } })
  const page = await client.call(listJobs, { query: { state: 'dead', limit: 5 } })
  await client.call(listJobs)
  await client.call(listQueues)
  const { items } = await client.call(claimJobs, { body: { waitMs: '10s' }, timeoutMs: 20_000 })
  await client.call(addJobs, { body: [{ kind: 'mail' }], idempotencyKey: 'k' })
  await client.stream(jobEvents, { query: { queues: 'mail' }, onEvent: ({ type, data }) => [type, data] })
  const found: [Job, readonly Job[], string | undefined] = [job, page.items, items[0]?.token]
  await client.jobs.add('mail', found)

  // @ts-expect-error this route needs an id
  await client.call(getJob)
  // @ts-expect-error of that name
  await client.call(getJob, { params: { name: 'a' } })
  // @ts-expect-error this one has no parameters
  await client.call(listQueues, { params: { id: 'a' } })
  // @ts-expect-error there is no such state
  await client.call(listJobs, { query: { state: 'done' } })
  // @ts-expect-error a body that must be there
  await client.call(pruneJobs, {})
  // @ts-expect-error a job has a kind
  await client.call(addJobs, { body: { payload: 1 } })
  // @ts-expect-error a list takes no body
  await client.call(listJobs, { body: {} })
  // @ts-expect-error a stream needs onEvent
  await client.stream(jobEvents, {})
}
