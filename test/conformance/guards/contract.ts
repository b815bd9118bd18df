import { describe } from 'vitest'
import { claimingContract } from './claiming.ts'
import { crowdsContract } from './crowds.ts'
import { listingContract } from './listing.ts'
import { manyContract } from './many.ts'
import { namesContract } from './names.ts'
import type { GuardsCandidate } from './opening.ts'
import { settlingContract } from './settling.ts'
import { transactionsContract } from './transactions.ts'
import { windowsContract } from './windows.ts'

/** All promises of an engine about guards. */
export function guardsContract(candidate: GuardsCandidate): void {
  describe('claiming keys', () => claimingContract(candidate))
  describe('settling keys', () => settlingContract(candidate))
  describe('windows', () => windowsContract(candidate))
  describe('many keys in one call', () => manyContract(candidate))
  describe('names of keys', () => namesContract(candidate))
  describe('listing and pruning keys', () => listingContract(candidate))
  describe('many callers at once', () => crowdsContract(candidate))
  describe('transactions', () => transactionsContract(candidate))
}
