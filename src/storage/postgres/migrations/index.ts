/** Every step of the schema, in order; a released one is never edited. */
import type { Migration } from '../../migration-plan.ts'
import { jobs } from './0001-jobs.ts'
import { access } from './0002-access.ts'
import { locks } from './0003-locks.ts'
import { once } from './0004-once.ts'
import { monitor } from './0005-monitor.ts'
import { audit } from './0006-audit.ts'
import { fleet } from './0007-fleet.ts'
import { comfort } from './0008-comfort.ts'
import { gates } from './0009-gates.ts'
import { lists } from './0010-lists.ts'
import { nodeTokens } from './0011-nodetokens.ts'
import { takenFences } from './0012-takenfences.ts'
import { deadNotifications } from './0013-dead-notifications.ts'

/** The steps for one schema, whose name comes quoted. */
export function migrationsFor(schema: string): readonly Migration[] {
  return [
    jobs(schema),
    access(schema),
    locks(schema),
    once(schema),
    monitor(schema),
    audit(schema),
    fleet(schema),
    comfort(schema),
    gates(schema),
    lists(schema),
    nodeTokens(schema),
    takenFences(schema),
    deadNotifications(schema),
  ]
}
