import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { open, type Sealer } from 'signalbox'
import { box, url } from '../postgres-box.ts'
import { check } from '../prelude.ts'

export * from '../postgres-box.ts'

process.env.JOBS_KEY_2026_01 = randomBytes(32).toString('base64')
const kept = new Map<string, Uint8Array>()
export const kms = {
  encrypt(plain: Uint8Array, { jobId, part }: { jobId: string; part: string }): Uint8Array {
    kept.set(`${jobId} ${part}`, plain)
    return new TextEncoder().encode('sealed')
  },
  decrypt: (_sealed: Uint8Array, { jobId, part }: { jobId: string; part: string }): Uint8Array =>
    kept.get(`${jobId} ${part}`)!,
} as const
check('Encrypt with AES', async ({ values: { sealer } }) => {
  await assertSeals(sealer)
})
check('Your own key service', async ({ values: { sealer } }) => {
  await assertSeals(sealer)
  assert.equal(kept.size, 1)
})
async function assertSeals(sealer: Sealer): Promise<void> {
  await using sealed = await open(url, { jobs: { sealer } })
  const added = await sealed.jobs.add('secret', { pin: 1234 })
  assert.deepEqual((await sealed.jobs.find(added.id))?.payload, { pin: 1234 })
  assert.doesNotMatch(JSON.stringify((await box.jobs.find(added.id))?.payload), /1234/)
}
