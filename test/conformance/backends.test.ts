import { describe } from 'vitest'
import { keysContract } from './access/keys.ts'
import { namespacesContract } from './access/namespaces.ts'
import { tokensContract } from './access/tokens.ts'
import { candidates, redisCandidates, threadedCandidates } from './candidates.ts'
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
import { locksContract } from './locks/contract.ts'
import { openingContract } from './opening.ts'

const threaded = threadedCandidates()

for (const candidate of [...candidates(), ...threaded]) {
  describe(candidate.title, () => {
    describe('adding jobs', () => addingContract(candidate))
    describe('claiming jobs', () => claimingContract(candidate))
    describe('leases', () => leasesContract(candidate))
    describe('settling', () => settlingContract(candidate))
    describe('taking back', () => reclaimingContract(candidate))
    describe('cancelling', () => cancellingContract(candidate))
    describe('retrying', () => retryingContract(candidate))
    describe('looking', () => lookingContract(candidate))
    // Memory has none either, but a verdict that it writes after the handler's work.
    if (!threaded.includes(candidate))
      describe('transactions of the store', () => transactionsContract(candidate))
    describe('opening and closing', () => openingContract(candidate))
    describe('namespaces', () => namespacesContract(candidate))
    describe('requests with a key', () => keysContract(candidate))
    describe('tokens', () => tokensContract(candidate))
    describe('locks', () => locksContract(candidate))
    if (!candidate.sql) return
    describe('transactions with your data', () => withDataContract(candidate))
    describe('transactions of the caller', () => callersContract(candidate))
  })
}

for (const candidate of redisCandidates()) {
  describe(candidate.title, () => {
    describe('locks', () => locksContract(candidate))
  })
}
