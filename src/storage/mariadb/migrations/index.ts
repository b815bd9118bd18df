/** Every step of the MariaDB schema, in order. */
import type { Migration } from '../../migration-plan.ts'
import { jobsMigration } from './001-jobs.ts'
import { accessMigration } from './002-access.ts'
import { locksMigration } from './003-locks.ts'
import { onceMigration } from './004-once.ts'
import { monitorMigration } from './005-monitor.ts'
import { auditMigration } from './006-audit.ts'
import { fleetMigration } from './007-fleet.ts'
import { comfortMigration } from './008-comfort.ts'
import { gatesMigration } from './009-gates.ts'
import { listsMigration } from './010-lists.ts'
import { nodeTokensMigration } from './011-nodetokens.ts'
import { takenFencesMigration } from './012-takenfences.ts'
import { deadNotificationsMigration } from './013-dead-notifications.ts'

export const migrations: readonly Migration[] = [
  jobsMigration,
  accessMigration,
  locksMigration,
  onceMigration,
  monitorMigration,
  auditMigration,
  fleetMigration,
  comfortMigration,
  gatesMigration,
  listsMigration,
  nodeTokensMigration,
  takenFencesMigration,
  deadNotificationsMigration,
]
