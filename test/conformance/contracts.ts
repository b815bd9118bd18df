import { describe, test } from 'vitest'
import { keysContract } from './access/keys.ts'
import { namespacesContract } from './access/namespaces.ts'
import { tokensContract } from './access/tokens.ts'
import { attemptsContract } from './attempts/contract.ts'
import { keepingContract as keepingOfAttempts } from './attempts/keeping.ts'
import { auditContract } from './audit/contract.ts'
import {
  type Candidate,
  candidates,
  type EngineName,
  redisCandidates,
  threadedCandidates,
} from './candidates.ts'
import { clusterStateContract } from './cluster-state/contract.ts'
import { forgettingContract as forgettingOfClusterState } from './cluster-state/forgetting.ts'
import { namesContract as documentsOfClusterState } from './cluster-state/names.ts'
import { dispatchedContract } from './cluster-state/namespaces.ts'
import { redisClusterStates } from './cluster-state/opening.ts'
import { writingContract as writingOfClusterState } from './cluster-state/writing.ts'
import { dependenciesContract } from './dependencies/contract.ts'
import { blockedNamespacesContract } from './dependencies/namespaces.ts'
import { dependenciesInTransactions } from './dependencies/transactions.ts'
import { guardsContract } from './guards/contract.ts'
import { redisGuards } from './guards/opening.ts'
import { settlingContract as settlingOfGuards } from './guards/settling.ts'
import { addingContract } from './jobs/adding.ts'
import { callersContract } from './jobs/callers.ts'
import { cancellingContract } from './jobs/cancelling.ts'
import { claimingContract } from './jobs/claiming.ts'
import { countingContract } from './jobs/counting.ts'
import { leasesContract } from './jobs/leases.ts'
import { lookingContract } from './jobs/looking.ts'
import { metaContract } from './jobs/meta.ts'
import { queuedContract } from './jobs/queued.ts'
import { reclaimingContract } from './jobs/reclaiming.ts'
import { refusedCallsContract } from './jobs/refused-calls.ts'
import { removingContract } from './jobs/removing.ts'
import { retryingContract } from './jobs/retrying.ts'
import { settlingContract } from './jobs/settling.ts'
import { transactionsContract } from './jobs/transactions.ts'
import { withDataContract } from './jobs/with-data.ts'
import { limitsContract } from './limits/contract.ts'
import { countingContract as countingOfLimits } from './limits/counting.ts'
import { crowdsContract as crowdsOfLimits } from './limits/crowds.ts'
import { locksContract } from './locks/contract.ts'
import { logsContract } from './logs/contract.ts'
import { linesContract } from './logs/logs.ts'
import { monitorContract } from './monitor/contract.ts'
import { sendingContract as sendingOfNotifications } from './monitor/sending.ts'
import { openingContract } from './opening.ts'
import { schedulesContract } from './schedules/contract.ts'
import { firingContract } from './schedules/firing.ts'
import { scheduledContract } from './schedules/namespaces.ts'
import { seriesContract } from './series/contract.ts'
import { workersContract } from './workers/contract.ts'

/** Every contract on one engine. Each has its own test file, so that they can run side by side. */
export function everyContract(engine: EngineName): void {
  const chosen = candidates().filter(({ name }) => name === engine)
  describeEach(chosen, (candidate) => {
    contractsOf(candidate)
    const borrower = borrowing(candidate)
    describe('transactions of the store', () => transactionsContract(borrower))
    if (!candidate.sql) return
    describe('transactions with your data', () => withDataContract(borrower))
    describe("callers' transactions", () => callersContract(borrower))
    describe("failed calls in callers' transactions", () => refusedCallsContract(borrower))
    describe("dependencies in callers' transactions", () => dependenciesInTransactions(borrower))
  })
}

/**
 * SQLite with a writer thread runs the same writes by the same code. Only the way to the thread and back can fail. So
 * this list repeats only the contracts that send every kind of call, answer and error across.
 */
export function writingContractsInThread(): void {
  describeEach(threadedCandidates(), (candidate) => {
    const borrower = borrowing(candidate)
    describe('adding jobs', () => addingContract(borrower))
    describe('claiming jobs', () => claimingContract(borrower))
    describe('settling', () => settlingContract(borrower))
    describe('opening and closing', () => openingContract(candidate))
    describe('requests with a key', () => keysContract(borrower))
    describe('settling guards', () => settlingOfGuards(borrower))
    describe('sending notifications', () => sendingOfNotifications(borrower))
    describe('audit', () => auditContract(borrower))
    describe('workers', () => workersContract(borrower))
    describe('writing the cluster state', () => writingOfClusterState(borrower))
    describe('pruning the cluster state', () => forgettingOfClusterState(borrower))
    describe('documents in the cluster state', () => documentsOfClusterState(borrower))
    describe('removing', () => removingContract(borrower))
    describe('log lines of attempts', () => linesContract(borrower))
    describe('storing failed attempts', () => keepingOfAttempts(borrower))
    describe('firing schedules', () => firingContract(borrower))
    describe('counting against limits', () => countingOfLimits(borrower))
    describe('limits with many claimers', () => crowdsOfLimits(borrower))
    describe('dependencies', () => dependenciesContract(borrower))
  })
}

/** Redis keeps locks, guards and the cluster state only. */
export function locksOnRedis(): void {
  describeEach(redisCandidates(), (candidate) => {
    describe('locks', () => locksContract(candidate))
  })
  describeEach(redisGuards(), (candidate) => {
    describe('guards', () => guardsContract(candidate))
  })
  describeEach(redisClusterStates(), (candidate) => {
    describe('cluster state', () => clusterStateContract(candidate))
  })
}

function describeEach<Chosen extends { readonly title: string }>(
  chosen: readonly Chosen[],
  define: (candidate: Chosen) => void,
): void {
  for (const candidate of chosen) describe(candidate.title, () => define(candidate))
  if (chosen.length === 0) test.skip('BACKENDS leaves this engine out', () => undefined)
}

/**
 * The same engine for contracts about a store's behaviour, not about opening and closing. A test without options
 * borrows an open backend; a test that names a namespace opens its own.
 */
function borrowing(candidate: Candidate): Candidate {
  return { ...candidate, open: (options) => (options ? candidate.open(options) : candidate.lend()) }
}

function contractsOf(candidate: Candidate): void {
  const borrower = borrowing(candidate)
  describe('adding jobs', () => addingContract(borrower))
  describe('claiming jobs', () => claimingContract(borrower))
  describe('leases', () => leasesContract(borrower))
  describe('settling', () => settlingContract(borrower))
  describe('reclaiming', () => reclaimingContract(borrower))
  describe('cancelling', () => cancellingContract(borrower))
  describe('retrying', () => retryingContract(borrower))
  describe('listing jobs', () => lookingContract(borrower))
  describe('counting jobs', () => countingContract(borrower))
  describe('removing jobs', () => removingContract(borrower))
  describe('meta of jobs', () => metaContract(borrower))
  describe('logs', () => logsContract(borrower))
  describe('attempts', () => attemptsContract(borrower))
  describe('schedules', () => schedulesContract(borrower))
  describe('limits', () => limitsContract(borrower))
  describe('dependencies', () => dependenciesContract(borrower))
  describe('opening and closing', () => openingContract(candidate))
  describe('namespaces', () => namespacesContract(candidate))
  describe('requests with a key', () => keysContract(borrower))
  describe('tokens', () => tokensContract(candidate))
  describe('locks', () => locksContract(borrower))
  describe('guards', () => guardsContract(borrower))
  describe('monitor', () => monitorContract(borrower))
  describe('audit', () => auditContract(borrower))
  describe('series', () => seriesContract(borrower))
  describe('cluster state', () => clusterStateContract(borrower))
  describe('workers', () => workersContract(borrower))
  describe('namespaces with nodes', () => dispatchedContract(candidate))
  describe('namespaces with schedules', () => scheduledContract(candidate))
  describe('namespaces with dependencies', () => blockedNamespacesContract(candidate))
  describe('namespaces with jobs of a queue', () => queuedContract(candidate))
}
