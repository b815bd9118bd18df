/** Keys and views for the contracts of access. */
import { createHash, randomUUID } from 'node:crypto'
import type { Backend, RequestKey, Stores } from '../../../src/storage/backend.ts'
import { longMs } from '../jobs/making.ts'

/** A new key, unless the test names one. */
export function aKey(key: Partial<RequestKey> = {}): RequestKey {
  return {
    caller: 'token-1',
    key: randomUUID(),
    fingerprint: fingerprintOf('POST /v1/jobs {}'),
    keepMs: longMs,
    ...key,
  }
}

export function fingerprintOf(request: string): string {
  return createHash('sha256').update(request).digest('hex')
}

/** A namespace's stores for making jobs: the helpers use only the jobs of a backend. */
export function jobsOf(stores: Stores): Backend {
  return stores as Backend
}
