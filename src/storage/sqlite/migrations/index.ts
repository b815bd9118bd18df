import type { Migration } from '../../migration-plan.ts'
import { jobs } from './001-jobs.ts'
import { access } from './002-access.ts'
import { locks } from './003-locks.ts'
import { once } from './004-once.ts'
import { monitor } from './005-monitor.ts'
import { audit } from './006-audit.ts'
import { fleet } from './007-fleet.ts'
import { comfort } from './008-comfort.ts'
import { gates } from './009-gates.ts'
import { lists } from './010-lists.ts'
import { nodeTokens } from './011-nodetokens.ts'
import { takenFences } from './012-takenfences.ts'
import { deadNotifications } from './013-dead-notifications.ts'

/** Every step of SQLite's schema, in order. */
export const migrations: readonly Migration[] = [
  jobs,
  access,
  locks,
  once,
  monitor,
  audit,
  fleet,
  comfort,
  gates,
  lists,
  nodeTokens,
  takenFences,
  deadNotifications,
]
