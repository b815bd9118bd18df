import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Box, open } from 'signalbox'
import type { Worker } from 'signalbox/jobs'
import { z } from 'zod'
import { around, check } from '../prelude.ts'

export let box: Box
export let worker: Worker

export const sendWelcome = (_payload: unknown): void => undefined
export const mailSchema: z.ZodObject<{ to: z.ZodString }> = z.object({ to: z.string() })

around(async () => {
  box = await open('sqlite:signalbox.db')
  worker = box.jobs.worker({ queues: ['mail'], workerId: 'mail-1', handlers: { welcome: sendWelcome } })
  await worker.start()
  await until(async () => (await box.jobs.findWorker('mail-1')) !== undefined)
  return () => box.close()
})

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    if (await isSo()) return
    await sleep(20)
  }
  assert.fail('it took too long')
}

check('See them', async () => {
  // The page's own worker has the name of the one above, so it is listed with a suffix.
  await until(async () => (await box.jobs.workers({ release: '2026-11-18.3' })).items.length === 1)
})

check('See them #2', ({ values: { items, cursor, at, one } }) => {
  assert.deepEqual([items.map(({ id }: { id: string }) => id), cursor, at > 0], [['mail-1'], null, true])
  assert.equal(one.id, 'mail-1')
})

check('Quiet, resume, stop', async () => {
  await until(async () => worker.mode === 'stopped')
})

check('Quiet, resume, stop #2', ({ output }) => {
  assert.match(output, /WORKER +STATE/)
  assert.match(output, /"items":\[\]/)
})

check('A rolling deploy', () => {
  assert.equal(process.listenerCount('SIGTERM'), 1)
  process.removeAllListeners('SIGTERM')
})
