import assert from 'node:assert/strict'
import { box } from '../box.ts'
import { check } from '../prelude.ts'

export { box } from '../box.ts'

export const makeReport = (payload: unknown, schedule: unknown): unknown => ({ payload, schedule })
export const sweep = (): void => undefined

check('Set a schedule', async () => {
  const { items } = await box.jobs.schedules.list()
  assert.deepEqual(
    items.map(({ name, cron, everyMs, timeZone }) => [name, cron, everyMs, timeZone]),
    [
      ['morning report', '0 9 * * 1-5', null, 'Asia/Shanghai'],
      ['sweep', null, 600_000, null],
    ],
  )
})
