import type { NodeView, TaskView } from './node.ts'

/** How one service stands in this process: the tasks that wait here, and the slots of the nodes that are connected here. */
export interface ServiceCounts {
  readonly service: string
  readonly waiting: number
  /** How long the oldest waiting task has waited since it was submitted; 0 when none waits. */
  readonly oldestWaitMs: number
  readonly slots: number
  readonly used: number
}

/** How one service stands at all servers. */
export interface ServiceSight extends ServiceCounts {
  readonly nodes: number
}

/** A look at every task and node of this process: for a scrape now and then. Sorted by service. */
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
    const line = of(spec.service)
    line.waiting++
    line.oldestWaitMs = Math.max(line.oldestWaitMs, now - spec.submittedAt)
  }
  for (const { via, status, services } of nodes) {
    // Other servers count their own nodes, and a node that is gone has nothing to offer.
    if (via !== null || status === 'gone') continue
    for (const { name, slots, used } of services) {
      const line = of(name)
      line.slots += slots
      line.used += used
    }
  }
  return [...counts.values()].sort((one, other) => (one.service < other.service ? -1 : 1))
}
