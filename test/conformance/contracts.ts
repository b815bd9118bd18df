import { describe, test } from 'vitest'
import { keysContract } from './access/keys.ts'
import { namespacesContract } from './access/namespaces.ts'
import { tokensContract } from './access/tokens.ts'
import { auditContract } from './audit/contract.ts'
import {
  type Candidate,
  candidates,
  type EngineName,
  redisCandidates,
  threadedCandidates,
} from './candidates.ts'
import { guardsContract } from './guards/contract.ts'
import { redisGuards } from './guards/opening.ts'
import { settlingContract as settlingOfGuards } from './guards/settling.ts'
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
import { monitorContract } from './monitor/contract.ts'
import { sendingContract as sendingOfNotifications } from './monitor/sending.ts'
import { openingContract } from './opening.ts'

/** Every contract on one engine. Each has a test file of its own, so that they can run side by side. */
export function everyContract(engine: EngineName): void {
  const chosen = candidates().filter(({ name }) => name === engine)
  describeEach(chosen, (candidate) => {
    contractsOf(candidate)
    describe('transactions of the store', () => transactionsContract(candidate))
    if (!candidate.sql) return
    describe('transactions with your data', () => withDataContract(candidate))
    describe('transactions of the caller', () => callersContract(candidate))
  })
}

/**
 * SQLite with its writes in a thread of their own does the same writes by the same code; what may go wrong is the way
 * there and back. So only those contracts are told again in which every kind of call, answer and error crosses.
 */
export function writingContractsInThread(): void {
  describeEach(threadedCandidates(), (candidate) => {
    describe('adding jobs', () => addingContract(candidate))
    describe('claiming jobs', () => claimingContract(candidate))
    describe('settling', () => settlingContract(candidate))
    describe('opening and closing', () => openingContract(candidate))
    describe('requests with a key', () => keysContract(candidate))
    describe('settling of guards', () => settlingOfGuards(candidate))
    describe('sending of notifications', () => sendingOfNotifications(candidate))
    describe('audit', () => auditContract(candidate))
  })
}

/** Redis keeps locks and guards, and nothing else. */
export function locksOnRedis(): void {
  describeEach(redisCandidates(), (candidate) => {
    describe('locks', () => locksContract(candidate))
  })
  describeEach(redisGuards(), (candidate) => {
    describe('guards', () => guardsContract(candidate))
  })
}

function describeEach<Chosen extends { readonly title: string }>(
  chosen: readonly Chosen[],
  tell: (candidate: Chosen) => void,
): void {
  for (const candidate of chosen) describe(candidate.title, () => tell(candidate))
  if (chosen.length === 0) test.skip('BACKENDS leaves this engine out', () => undefined)
}

function contractsOf(candidate: Candidate): void {
  describe('adding jobs', () => addingContract(candidate))
  describe('claiming jobs', () => claimingContract(candidate))
  describe('leases', () => leasesContract(candidate))
  describe('settling', () => settlingContract(candidate))
  describe('taking back', () => reclaimingContract(candidate))
  describe('cancelling', () => cancellingContract(candidate))
  describe('retrying', () => retryingContract(candidate))
  describe('looking', () => lookingContract(candidate))
  describe('opening and closing', () => openingContract(candidate))
  describe('namespaces', () => namespacesContract(candidate))
  describe('requests with a key', () => keysContract(candidate))
  describe('tokens', () => tokensContract(candidate))
  describe('locks', () => locksContract(candidate))
  describe('guards', () => guardsContract(candidate))
  describe('monitor', () => monitorContract(candidate))
  describe('audit', () => auditContract(candidate))
}
