import { describe } from 'vitest'
import { candidates } from './candidates.ts'
import { addingContract } from './jobs/adding.ts'
import { callersContract } from './jobs/callers.ts'
import { cancellingContract } from './jobs/cancelling.ts'
import { claimingContract } from './jobs/claiming.ts'
import { leasesContract } from './jobs/leases.ts'
import { lookingContract } from './jobs/looking.ts'
import { reclaimingContract } from './jobs/reclaiming.ts'
import { retryingContract } from './jobs/retrying.ts'
import { settlingContract } from './jobs/settling.ts'
import { transactionsContract } from './jobs/transactions.ts'
import { withDataContract } from './jobs/withdata.ts'
import { openingContract } from './opening.ts'

for (const candidate of candidates()) {
  describe(candidate.name, () => {
    describe('adding jobs', () => addingContract(candidate))
    describe('claiming jobs', () => claimingContract(candidate))
    describe('leases', () => leasesContract(candidate))
    describe('settling', () => settlingContract(candidate))
    describe('taking back', () => reclaimingContract(candidate))
    describe('cancelling', () => cancellingContract(candidate))
    describe('retrying', () => retryingContract(candidate))
    describe('looking', () => lookingContract(candidate))
    describe('transactions of the store', () => transactionsContract(candidate))
    describe('opening and closing', () => openingContract(candidate))
    if (!candidate.sql) return
    describe('transactions with your data', () => withDataContract(candidate))
    describe('transactions of the caller', () => callersContract(candidate))
  })
}
