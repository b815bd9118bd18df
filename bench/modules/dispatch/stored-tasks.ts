/**
 * The rows of dispatched tasks, written through Signalbox's own store: the documents that dispatch writes, added, claimed
 * and ended in the batches of the raw loop beside it, on the connection that a server has, and with no node and no
 * socket. Several batches are under way at a time, as adds, claims and ends of a dispatcher do not wait for each other.
 */
import { open } from 'signalbox'
import { createId } from '../../../src/core/ids.ts'
import { dispatchQueue, encodeOutput, encodeTaskJob } from '../../../src/dispatch/tasks/task-document.ts'
import type { Figures } from '../../case.ts'
import { type SocketsPace, worked } from './paced.ts'

const batch = 500
const lanes = 3
const terms = {
  ...{ service: 'asr', uses: { asr: 1 }, requires: [], prefers: [], priority: 5, tenant: 'default' },
  ...{ session: null, deadlineMs: null, idleMs: null, retryable: true },
}
const payload = JSON.stringify({ text: 'where is the station, please?', from: 'en', to: 'de' })
const ended = { state: 'completed', delayMs: 0, ranMs: null, error: null } as const

/** Tasks a second, and what one costs. */
export async function storedTasks(url: string, pace: SocketsPace): Promise<Figures> {
  await using box = await open(url, { thread: true })
  const { jobs } = box.backend
  let endedCount = 0
  let isRunning = true

  async function writeBatches(): Promise<void> {
    const asked = { queues: [dispatchQueue], kinds: null, workerId: 'bench', limit: batch, leaseMs: 30_000 }
    while (isRunning) {
      await jobs.add(Array.from({ length: batch }, () => encodeTaskJob(createId(), terms, payload)))
      const claimed = await jobs.claim(asked)
      const verdicts = claimed.map(({ id, token, attempt, handBackCount, snoozeCount }, at) => {
        const result = encodeOutput(`node-${at}`, '{"ok":true}')
        return { jobId: id, token, attempt, handBackCount, snoozeCount, result, ...ended }
      })
      const took = await jobs.settle(verdicts)
      if (!took.every(Boolean)) throw new Error('A lease is lost.')
      endedCount += took.length
    }
  }

  const writing = Promise.all(Array.from({ length: lanes }, writeBatches))
  const { rate, microseconds } = await Promise.race([
    worked(pace, () => endedCount),
    writing.then(() => Promise.reject(new Error('It ended early.'))),
  ])
  isRunning = false
  await writing
  return { rate, microseconds }
}
