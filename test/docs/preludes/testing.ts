import type { TestBox } from 'signalbox/testing'

export const startWorker = (there: TestBox): unknown =>
  there.jobs.worker({ handlers: { charge: () => 'charged' } })
export const placeOrder = (there: TestBox, orderId: number): Promise<unknown> =>
  there.jobs.add('charge', { orderId })
