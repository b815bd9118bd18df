import { type ComponentType, type LazyExoticComponent, lazy } from 'react'
import type { shellWords } from '../words/shell.ts'
import { loadPart } from './part.ts'

/**
 * Every view: its address, its key after `g`, its place in the navigation, and its loader. The path names the view; all
 * other state is in the query, so any name is allowed there.
 */
export interface View {
  readonly name: ViewName
  /** Without a slash; '' is home. */
  readonly path: string
  /** Pressed after `g`; views without one are reached from others. */
  readonly key: string | null
  /** The group it stands in; null: it is not in the navigation, but opens from `parent`. */
  readonly group: Group | null
  readonly parent: ViewName | null
  readonly component: LazyExoticComponent<ComponentType>
}

export type ViewName = keyof typeof loaders
export type Group = 'work' | 'coordination' | 'fleet' | 'server'
/** Every view has its title in the words of the shell. */
type Titled = ViewName extends keyof typeof shellWords ? true : never
export const everyViewIsTitled: Titled = true

const loaders = {
  overview: () => import('../views/overview/overview.tsx'),
  queues: () => import('../views/queues/queues.tsx'),
  queue: () => import('../views/queue/queue.tsx'),
  jobs: () => import('../views/jobs/jobs.tsx'),
  job: () => import('../views/job/job.tsx'),
  schedules: () => import('../views/schedules/schedules.tsx'),
  errors: () => import('../views/errors/errors.tsx'),
  workers: () => import('../views/workers/workers.tsx'),
  locks: () => import('../views/locks/locks.tsx'),
  once: () => import('../views/once/once.tsx'),
  monitor: () => import('../views/monitor/monitor.tsx'),
  nodes: () => import('../views/nodes/nodes.tsx'),
  tasks: () => import('../views/tasks/tasks.tsx'),
  contention: () => import('../views/contention/contention.tsx'),
  audit: () => import('../views/audit/audit.tsx'),
  settings: () => import('../views/settings/settings.tsx'),
} satisfies Record<string, () => Promise<{ readonly default: ComponentType }>>

/** In the order of the navigation. */
export const views: readonly View[] = [
  view('overview', 'o', 'work', { path: '' }),
  view('queues', 'q', 'work'),
  view('queue', null, null, { parent: 'queues' }),
  view('jobs', 'j', 'work'),
  view('job', null, null, { parent: 'jobs' }),
  view('schedules', 's', 'work'),
  view('errors', 'x', 'work'),
  view('workers', 'w', 'work'),
  view('locks', 'l', 'coordination'),
  view('once', 'u', 'coordination'),
  view('monitor', 'm', 'coordination'),
  view('nodes', 'n', 'fleet'),
  view('tasks', 't', 'fleet'),
  view('contention', 'c', 'fleet'),
  view('audit', 'a', 'server'),
  view('settings', 'e', 'server'),
]

export const groups: readonly Group[] = ['work', 'coordination', 'fleet', 'server']

export function viewAt(path: string): View | undefined {
  return views.find((one) => one.path === path)
}

export function viewOf(name: ViewName): View {
  return views.find((one) => one.name === name)!
}

function view(
  name: ViewName,
  key: string | null,
  group: Group | null,
  { path = name, parent = null }: { readonly path?: string; readonly parent?: ViewName | null } = {},
): View {
  return { name, path, key, group, parent, component: lazy<ComponentType>(() => loadPart(loaders[name])) }
}
