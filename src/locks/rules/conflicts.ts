/**
 * Operations that exclude each other on a resource: pairs of their names. Nothing of this is looked at unless a rule
 * names the operation.
 */
export type Conflicts = readonly (readonly [string, string])[]

/** The operations that this one excludes. */
export function excludedBy(conflicts: Conflicts, operation: string): readonly string[] {
  return knowledgeOf(conflicts).excluded.get(operation) ?? []
}

/**
 * All operations whose wait queues are judged together: those that this one excludes, those that they exclude, and so on, in
 * one order and with itself. Undefined when no rule names it.
 */
export function groupOf(conflicts: Conflicts | undefined, operation: string): readonly string[] | undefined {
  return conflicts && knowledgeOf(conflicts).groups.get(operation)
}

interface Knowledge {
  readonly excluded: ReadonlyMap<string, readonly string[]>
  readonly groups: ReadonlyMap<string, readonly string[]>
}

/** Worked out once for each list of rules. */
const known = new WeakMap<Conflicts, Knowledge>()

function knowledgeOf(conflicts: Conflicts): Knowledge {
  const before = known.get(conflicts)
  if (before) return before
  const excluded = new Map<string, Set<string>>()
  for (const [one, other] of conflicts) {
    if (!excluded.has(one)) excluded.set(one, new Set())
    if (!excluded.has(other)) excluded.set(other, new Set())
    excluded.get(one)!.add(other)
    excluded.get(other)!.add(one)
  }
  const groups = new Map<string, readonly string[]>()
  for (const operation of excluded.keys()) {
    if (groups.has(operation)) continue
    const members = new Set([operation])
    for (const member of members) for (const other of excluded.get(member)!) members.add(other)
    const group = [...members].sort()
    for (const member of group) groups.set(member, group)
  }
  const made = {
    excluded: new Map([...excluded].map(([operation, others]) => [operation, [...others]])),
    groups,
  }
  known.set(conflicts, made)
  return made
}
