import type { Family, Value } from './series.ts'

/** A namespace, and how many nodes are connected to this server in it, by status. */
export interface NodesSpace {
  readonly namespace: string
  nodeStates?(): ReadonlyMap<string, number>
}

/** Each server shows its own nodes, so that those of all servers add up. */
export function nodeFamilies(spaces: Iterable<NodesSpace>): readonly Family[] {
  const values: Value[] = []
  for (const space of spaces) {
    const { namespace } = space
    for (const [state, value] of space.nodeStates?.() ?? [])
      values.push({ labels: { namespace, state }, value })
  }
  return [
    { name: 'signalbox_nodes', help: 'Nodes that are connected here, by status.', type: 'gauge', values },
  ]
}
