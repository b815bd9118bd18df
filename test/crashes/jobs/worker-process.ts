/**
 * A worker process that is made to be killed: it opens the database, records its store calls, and works until it is ended.
 * Started by fleet.ts with its options as JSON.
 */

import { createJobs } from '../../../src/jobs/index.ts'
import { openBackend } from '../../../src/storage/open.ts'
import { keepCompiled } from '../../support/compiled.ts'
import { createRecorder, createSilence } from '../history.ts'
import { describe, recordStore } from '../recording-store.ts'
import { createHandlers } from './handlers.ts'

export interface WorkerProcessOptions {
  readonly url: string
  readonly folder: string
  readonly name: string
  readonly workerId: string
  readonly concurrency: number
  readonly prefetch: number
  readonly leaseMs: number
  readonly pollMs: number
  /** Record nothing: for loads of which the history would be the greater part. */
  readonly isSilent: boolean
}

const options = JSON.parse(process.argv[2]!) as WorkerProcessOptions
const { url, folder, name, workerId, concurrency, prefetch, leaseMs, pollMs, isSilent } = options
const recorder = isSilent ? createSilence(name) : createRecorder(folder, `${name}-${process.pid}`)

// A server that is being killed cannot be opened; a supervisor would restart the worker.
const backend = await patiently(() => openBackend(url, { namespace: 'crashes', migrate: false }))
const jobs = createJobs({
  store: isSilent ? backend.jobs : recordStore(backend.jobs, recorder),
  notifier: backend.notifier,
})
const handlers = createHandlers({ url, workerId, recorder })
const worker = jobs.worker({
  handlers,
  workerId,
  concurrency,
  prefetch,
  leaseMs,
  pollMs,
  queues: ['default'],
})
worker.on('warning', ({ message, error }) => {
  recorder.write({ type: 'info', op: 'note', items: [], detail: `${message} ${describe(error)}` })
})
worker.on('lost', ({ job }) => {
  recorder.write({ type: 'ok', op: 'note', items: [{ job: job.id, token: job.token }], detail: 'lost' })
})
await worker.start()
recorder.write({ type: 'ok', op: 'note', items: [], detail: 'started' })
keepCompiled()

process.once('SIGTERM', () => {
  const stopping = worker.stop({ graceMs: 2_000 }).then(() => backend.close())
  void stopping.then(() => process.exit(0))
})
// Keeps the process alive whatever its loops do; only signals end it.
setInterval(() => undefined, 60_000)

async function patiently<Answer>(open: () => Promise<Answer>): Promise<Answer> {
  for (const deadline = Date.now() + 30_000; ; ) {
    try {
      return await open()
    } catch (error) {
      recorder.write({ type: 'info', op: 'note', items: [], detail: `not open yet: ${describe(error)}` })
      if (Date.now() > deadline) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}
