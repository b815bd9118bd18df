/** Durations are milliseconds, or text with a unit, wherever an option takes one; `tsc` is the test. */
import { type Box, type Duration, open, type RemoteBox } from 'signalbox'
import type { WorkerOptions } from 'signalbox/jobs'
import { createTestClock } from 'signalbox/testing'

export const spans: readonly Duration[] = [0, 250, '250ms', '30s', '1.5m', '24h', '7d']

export async function accepted(box: Box, fromOutside: string): Promise<void> {
  await open('memory:', { retentionMs: '30d' })
  await box.jobs.add('mail', null, { delayMs: '5s', timeoutMs: 1_000 })
  await box.jobs.claim({ leaseMs: fromOutside as Duration })
  await box.locks.hold('deploy', 'shop', { node: 'a', ttlMs: '1m' })
  createTestClock(0).advance('24h')
}

export async function mistakes(box: Box, remote: RemoteBox, fromOutside: string): Promise<void> {
  // @ts-expect-error no unit
  await open('memory:', { retentionMs: '30' })
  // @ts-expect-error a unit that does not exist
  await box.jobs.add('mail', null, { delayMs: '5 seconds' })
  // @ts-expect-error no number
  await box.jobs.claim({ leaseMs: 'soon' })
  // @ts-expect-error any text, unless the program says that it is a span
  await box.jobs.nack({ id: 'a', token: 'b' }, { retryInMs: fromOutside })
  // @ts-expect-error weeks
  await remote.locks.hold('deploy', 'shop', { node: 'a', ttlMs: '1w' })
  // @ts-expect-error a worker's lease
  const options: WorkerOptions = { handlers: {}, leaseMs: '30sec' }
  // @ts-expect-error a guard's lease
  await box.once.claim('order:7', { leaseMs: 'P1D' })
  // @ts-expect-error a window of the monitor
  await box.monitor.silence({ forMs: 'an hour' })
  // @ts-expect-error the deadline of a task
  await box.dispatch.submit({ service: 'translate', payload: null, deadlineMs: '1y' })
  // @ts-expect-error the clock of a test
  createTestClock(0).advance(`${options.pollMs}`)
}
