import type { RemoteBox } from '../index.ts'
import { act, between, chance, Mishap, pass, pick, type Stage } from './actor.ts'

/**
 * The office: jobs of several kinds in several queues. Some fail and are retried, some die, some wait for other jobs
 * or for a lock. Tenants share a limited queue, and schedules add jobs. It uses HTTP, so all its requests pass through
 * the server.
 */
const tenants = ['acme', 'globex', 'initech', 'umbrella', 'hooli'] as const
const people = ['ada', 'grace', 'edsger', 'barbara', 'tony', 'leslie'] as const

export async function playOffice(box: RemoteBox, stage: Stage): Promise<void> {
  const { jobs } = box
  await jobs.setLimits('mail', {
    concurrency: 12,
    perKey: { concurrency: 3, rate: { count: 300, perMs: '1m' } },
  })
  await jobs.schedules.set('sales-figures', {
    everyMs: '20s',
    job: { kind: 'report.sales', queue: 'reports', payload: { region: 'emea' }, tags: ['scheduled'] },
  })
  await jobs.schedules.set('morning-mail', {
    cron: '0 9 * * 1-5',
    timeZone: 'Asia/Shanghai',
    job: { kind: 'mail.digest', queue: 'mail', payload: { list: 'team' } },
  })
  const workers = [workerOf(box, 'desk-1'), workerOf(box, 'desk-2')]
  for (const worker of workers) await worker.start()
  try {
    await Promise.all([
      act(stage, 'mail', [60, 260], () => {
        const tenant = pick(tenants)
        const payload = { to: `${pick(people)}@${tenant}.example`, template: 'welcome' }
        return jobs.add('mail.welcome', payload, {
          queue: 'mail',
          limitKey: tenant,
          priority: chance(0.1) ? 5 : 0,
        })
      }),
      act(stage, 'images', [400, 1_400], () =>
        jobs.add(
          'image.resize',
          { file: `photo-${Math.floor(between(1, 9_999))}.jpg`, width: pick([320, 640, 1280]) },
          { queue: 'images' },
        ),
      ),
      act(stage, 'billing', [1_500, 4_000], () =>
        jobs.add(
          'invoice.charge',
          { customer: pick(people), cents: Math.round(between(500, 90_000)) },
          { queue: 'billing', maxAttempts: 2, tags: chance(0.2) ? ['vip'] : [], backoff: { baseMs: 3_000 } },
        ),
      ),
      act(stage, 'catalogue', [5_000, 9_000], () =>
        jobs.add(
          'catalogue.rebuild',
          {},
          { queue: 'reports', lock: { operation: 'rebuild', resource: 'catalogue' } },
        ),
      ),
      act(stage, 'flow', [12_000, 20_000], () =>
        jobs.addMany([
          {
            kind: 'etl.load',
            payload: { day: new Date().toISOString().slice(0, 10) },
            queue: 'reports',
            ref: 'load',
          },
          ...['emea', 'apac', 'amer'].map((region) => ({
            ...{ kind: 'etl.sum', payload: { region }, queue: 'reports', ref: region, after: 'load' },
          })),
          { kind: 'report.board', queue: 'reports', after: ['emea', 'apac', 'amer'] },
        ]),
      ),
      // An operator retries dead jobs, so that they do not accumulate.
      act(stage, 'operator', [60_000, 90_000], () => jobs.retryDead({ limit: 50 })),
    ])
  } finally {
    await Promise.all(workers.map((worker) => worker.stop({ graceMs: 2_000 })))
  }
}

function workerOf(box: RemoteBox, workerId: string) {
  return box.jobs.worker({
    ...{ workerId, queues: ['default', 'mail', 'images', 'billing', 'reports'], concurrency: 16 },
    handlers: {
      async 'mail.welcome'(job, { signal }) {
        await pass(signal, 30, 400)
        if (chance(0.04)) throw new Mishap('the relay mx1.example is away')
        return { messageId: job.id }
      },
      'mail.digest': (_job, { signal }) => pass(signal, 200, 600),
      async 'image.resize'(job, { signal }) {
        for (let percent = 0; percent <= 100; percent += 20) {
          job.progress({ percent, note: `${percent} of 100 tiles` })
          await pass(signal, 80, 300)
        }
        if (chance(0.1)) job.log('the colour profile was missing; sRGB was taken', { level: 'warn' })
        return { bytes: Math.round(between(20_000, 900_000)) }
      },
      async 'invoice.charge'(job, { signal }) {
        await pass(signal, 200, 900)
        if (chance(0.05)) return job.snooze(5_000)
        if (chance(0.12)) throw Object.assign(new Mishap('the card was declined'), { code: 'card_declined' })
        return { charged: true }
      },
      'report.sales': (_job, { signal }) => pass(signal, 800, 2_500),
      async 'catalogue.rebuild'(job, { signal }) {
        job.log(`fence ${job.fence}`)
        await pass(signal, 1_000, 3_000)
      },
      'etl.load': (_job, { signal }) => pass(signal, 500, 1_500),
      'etl.sum': (_job, { signal }) => pass(signal, 400, 2_000),
      'report.board': (_job, { signal }) => pass(signal, 300, 800),
    },
  })
}
