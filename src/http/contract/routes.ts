import type { Route } from './route.ts'
import * as attempts from './routes/attempts.ts'
import * as jobActs from './routes/job-acts.ts'
import * as waits from './routes/job-waits.ts'
import * as jobs from './routes/jobs.ts'
import * as locks from './routes/locks.ts'
import * as monitor from './routes/monitor.ts'
import * as nodes from './routes/nodes.ts'
import * as once from './routes/once.ts'
import * as overview from './routes/overview.ts'
import * as queues from './routes/queues.ts'
import * as schedules from './routes/schedules.ts'
import * as subscriptions from './routes/subscriptions.ts'
import * as system from './routes/system.ts'
import * as tasks from './routes/tasks.ts'
import * as workers from './routes/workers.ts'

const files = [
  ...[system, overview, jobs, attempts, waits, jobActs, queues, workers, schedules],
  ...[locks, once, monitor, subscriptions, tasks, nodes],
]

/** All routes that the files of `routes/` export. The routes of a file are in the order of their paths. */
export const routes: readonly Route[] = files.flatMap((file) =>
  Object.values<unknown>(file).filter(isRoute).sort(byPath),
)

function isRoute(exported: unknown): exported is Route {
  return typeof exported === 'object' && exported !== null && 'path' in exported && 'replies' in exported
}

function byPath(a: Route, b: Route): number {
  return a.path === b.path ? (a.method > b.method ? -1 : 1) : a.path < b.path ? -1 : 1
}
