import assert from 'node:assert/strict'
import { until } from '../../handler-job.ts'
import { check } from '../../prelude.ts'

const sent: unknown[] = []
export const send = async (payload: unknown, _how: { signal: AbortSignal }): Promise<void> =>
  void sent.push(payload)

check('The same program, twice #2', async () => {
  await until(() => sent.length > 0)
  assert.deepEqual(sent, [{ to: 'ada' }])
})
