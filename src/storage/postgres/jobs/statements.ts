import { type ClaimStatements, claimStatements } from '../claim/claim.ts'
import { type LimitStatements, limitStatements } from '../claim/limit-claim.ts'
import { type StraightStatements, straightStatements } from '../claim/limit-straight.ts'
import { type ReclaimStatements, reclaimStatements } from '../claim/reclaim.ts'
import type { Statement } from '../connection/connection.ts'
import { type AddStatements, addStatements } from './add.ts'
import { addClaimedStatement } from './add-claimed.ts'
import { type AttemptStatements, attemptStatements } from './attempts.ts'
import { finishStatement } from './finish.ts'
import { type OperationStatements, operationStatements } from './operate.ts'
import { type RemoveStatements, removeStatements } from './remove.ts'
import { type SettleStatements, settleStatements } from './settle.ts'

/** Every statement on jobs, made once for a schema: namespaces share them. */
export interface JobStatements {
  readonly add: AddStatements
  readonly addClaimed: Statement
  readonly claim: ClaimStatements
  readonly limits: LimitStatements
  readonly straight: StraightStatements
  readonly attempts: AttemptStatements
  readonly settle: SettleStatements
  readonly finish: Statement
  readonly reclaim: ReclaimStatements
  readonly operations: OperationStatements
  readonly remove: RemoveStatements
}

/** The statements for a schema, whose name comes quoted. */
export function jobStatements(schema: string): JobStatements {
  return {
    add: addStatements(schema),
    addClaimed: addClaimedStatement(schema),
    claim: claimStatements(schema),
    limits: limitStatements(schema),
    straight: straightStatements(schema),
    attempts: attemptStatements(schema),
    settle: settleStatements(schema),
    finish: finishStatement(schema),
    reclaim: reclaimStatements(schema),
    operations: operationStatements(schema),
    remove: removeStatements(schema),
  }
}
