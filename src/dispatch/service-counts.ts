import type { NodeView, TaskView } from './node.ts'

/** Counts of one service in this process: its waiting tasks, and the slots of the connected nodes. */
export interface ServiceCounts {
  readonly service: string
  readonly waiting: number
  /** The time since the oldest waiting task was submitted; 0 if none waits. */
  readonly oldestWaitMs: number
  readonly slots: number
  readonly used: number
}

/** Counts of one service at all servers. */
export interface ServiceSight extends ServiceCounts {
  readonly nodes: number
}

/** Counts all tasks and nodes of this process by service, sorted. It is meant for occasional scrapes. */
export function countServices(
  tasks: Iterable<TaskView>,
  nodes: Iterable<NodeView>,
  now: number,
): readonly ServiceCounts[] {
  const counts = new Map<string, { -readonly [Key in keyof ServiceCounts]: ServiceCounts[Key] }>()
  const of = (service: string) => {
    const known = counts.get(service)
    if (known !== undefined) return known
    const made = { service, waiting: 0, oldestWaitMs: 0, slots: 0, used: 0 }
    counts.set(service, made)
    return made
  }
  for (const { status, spec } of tasks) {
    if (status !== 'waiting') continue
    const count = of(spec.service)
    count.waiting++
    count.oldestWaitMs = Math.max(count.oldestWaitMs, now - spec.submittedAt)
  }
  for (const { via, status, services } of nodes) {
    // Other servers count their own nodes, and a node that is gone offers no slots.
    if (via !== null || status === 'gone') continue
    for (const { name, slots, used } of services) {
      const count = of(name)
      count.slots += slots
      count.used += used
    }
  }
  return [...counts.values()].sort((one, other) => (one.service < other.service ? -1 : 1))
}
