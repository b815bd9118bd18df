/** Each call that may have a key, and an event in between that would show if the call ran twice. */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { createId } from '../../../src/core/ids.ts'
import type { JobStore } from '../../../src/jobs/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import {
  addOne,
  aJob,
  claim,
  endedJob,
  leaseOf,
  longMs,
  runningJob,
  settleOne,
  verdictOf,
} from '../jobs/making.ts'

/** A call that is ready to be made. */
export interface PreparedCall {
  /** Makes the call, as a repeated request would. */
  run(jobs: JobStore): Promise<unknown>
  /** An event after the first call. */
  meanwhile(): Promise<unknown>
  /** The answer to the first call, where a test can know it. */
  readonly answers?: unknown
}

const claimRequest = { queues: ['mail'], kinds: null, workerId: 'w1', limit: 2, leaseMs: longMs }

/** In the order of the contract; some twice, where there is more than one kind of answer. */
export const keyedCalls: Readonly<Record<string, (backend: Backend) => Promise<PreparedCall>>> = {
  async add(backend) {
    // A repeated request has new ids; the answer has the first ones.
    return {
      run: (jobs) => jobs.add([aJob(), aJob({ payload: '{"👩‍🚀":"\\u0000\\\\ 𝒳"}' })]),
      meanwhile: async () => backend.jobs.settle((await claim(backend)).map((job) => verdictOf(job))),
    }
  },

  async 'add with a unique key'(backend) {
    return {
      run: (jobs) => jobs.add([aJob({ uniqueKey: 'u' })]),
      meanwhile: async () => settleOne(backend, (await claim(backend))[0]!),
    }
  },

  async claim(backend) {
    for (const payload of ['1', '{"a":"é😀\\u0000"}', '3']) await addOne(backend, { payload })
    return {
      run: (jobs) => jobs.claim(claimRequest),
      meanwhile: async () => {
        const running = await backend.jobs.list({ state: 'running', limit: 10 })
        for (const { id } of running) await backend.jobs.cancel(id)
        await claim(backend)
      },
    }
  },

  async 'claim from a queue with limits'(backend) {
    const limits = {
      concurrency: 2,
      rate: { count: 3, perMs: longMs },
      perKey: { concurrency: 1, rate: null },
    }
    await backend.jobs.setLimits('mail', limits)
    const metas = ['{"limitKey":"a"}', '{"limitKey":"a"}', '{"limitKey":"é"}', null]
    await backend.jobs.add(metas.map((meta) => aJob({ meta })))
    return {
      run: (jobs) => jobs.claim(claimRequest),
      meanwhile: () => backend.jobs.setLimits('mail', null),
    }
  },

  async limit(backend) {
    await addOne(backend)
    return {
      run: (jobs) => jobs.setLimits('mail', { concurrency: 1, rate: null, perKey: null }),
      meanwhile: () => backend.jobs.setLimits('mail', null),
      answers: undefined,
    }
  },

  async renew(backend) {
    const claimed = await runningJob(backend)
    return {
      run: (jobs) => jobs.renew([leaseOf(claimed), { jobId: createId(), token: '1.0' }], 2 * longMs),
      meanwhile: () => settleOne(backend, claimed),
    }
  },

  async remove(backend) {
    const [waiting, ended] = [await addOne(backend), await endedJob(backend, 'dead', { queue: 'other' })]
    const running = await runningJob(backend, { queue: 'running' })
    const ids = [waiting, ended, running.id]
    return {
      run: async (jobs) => (await jobs.remove(ids)).toSorted(),
      meanwhile: () => settleOne(backend, running),
      answers: [waiting, ended].sort(),
    }
  },

  async settle(backend) {
    const claimed = await runningJob(backend)
    const verdicts = [
      verdictOf(claimed, { state: 'dead', error: '{"message":"no"}' }),
      verdictOf({ ...claimed, id: createId() }),
    ]
    return {
      run: (jobs) => jobs.settle(verdicts),
      meanwhile: () => backend.jobs.retry(claimed.id),
      answers: [true, false],
    }
  },

  async cancel(backend) {
    const id = await addOne(backend)
    return {
      run: (jobs) => jobs.cancel(id),
      meanwhile: () => backend.jobs.retry(id),
      answers: { state: 'cancelled', cancelRequested: false },
    }
  },

  async 'cancel of a job that is not there'(backend) {
    const id = createId()
    return {
      run: (jobs) => jobs.cancel(id),
      meanwhile: () => addOne(backend, { id }),
      answers: undefined,
    }
  },

  async retry(backend) {
    const id = await endedJob(backend, 'dead')
    return {
      run: (jobs) => jobs.retry(id),
      meanwhile: () => backend.jobs.cancel(id),
      answers: { outcome: 'ready' },
    }
  },

  async retryDead(backend) {
    for (let i = 0; i < 3; i++) await endedJob(backend, 'dead')
    return {
      run: (jobs) => jobs.retryDead({ queue: 'mail', limit: 2 }),
      meanwhile: () => claim(backend),
      answers: 2,
    }
  },

  async pause(backend) {
    await addOne(backend)
    return {
      run: (jobs) => jobs.pause('mail'),
      meanwhile: () => backend.jobs.resume('mail'),
      answers: undefined,
    }
  },

  async resume(backend) {
    await addOne(backend)
    await backend.jobs.pause('mail')
    return {
      run: (jobs) => jobs.resume('mail'),
      meanwhile: () => backend.jobs.pause('mail'),
      answers: undefined,
    }
  },

  async prune(backend) {
    for (let i = 0; i < 3; i++) await endedJob(backend, 'completed')
    // An end in the same millisecond would not be older than 0 ms.
    await sleep(5)
    return {
      run: (jobs) => jobs.prune({ olderThanMs: 0, limit: 2 }),
      meanwhile: async () => assert.equal((await backend.jobs.list({ limit: 10 })).length, 1),
      answers: 2,
    }
  },
}

/** Everything visible of a namespace. */
export async function seen({ jobs }: Backend): Promise<unknown> {
  return { jobs: await jobs.list({ limit: 100 }), queues: await jobs.stats() }
}
