import type { WireNode } from '../../../src/http/client/index.ts'

const statuses: readonly WireNode['status'][] = ['gone', 'suspect', 'ready']

/** Nodes that need a look first: gone, suspect, overloaded, closed to new work; then by name. */
export function worstNodesFirst(nodes: readonly WireNode[]): readonly WireNode[] {
  const troubleOf = (node: WireNode) => {
    const closed = node.cordoned || node.draining || node.services.some(({ cordoned }) => cordoned)
    const next = node.overloaded ? 0 : closed ? 1 : 2
    return statuses.indexOf(node.status) * 3 + next
  }
  return nodes.toSorted((a, b) => troubleOf(a) - troubleOf(b) || (a.nodeId < b.nodeId ? -1 : 1))
}
