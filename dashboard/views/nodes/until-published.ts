import type { Client, WireNode } from '../../../src/http/client/index.ts'
import { changed } from '../../live/queries.ts'
import type { Pool } from './rule.ts'

/**
 * Nodes and pools are shown as last published, slightly stale. After an action the page waits briefly for the published
 * change, so that it does not flip back to the old state.
 */
const looks = 12
const lookEveryMs = 150

/** Until the node is as wanted, or gone. */
export async function nodeTold(
  client: Client,
  nodeId: string,
  isTold: (node: WireNode) => boolean,
): Promise<void> {
  await look(async () => {
    const { items } = await client.dispatch.nodes({ nodeId })
    return items[0] === undefined || isTold(items[0])
  })
}

/** Until the pool is as wanted; undefined: it is not there. */
export async function poolTold(
  client: Client,
  name: string,
  isTold: (pool: Pool | undefined) => boolean,
): Promise<void> {
  await look(async () => {
    const { items } = await client.dispatch.pools()
    return isTold(items.find((pool) => pool.name === name))
  })
}

async function look(isTold: () => Promise<boolean>): Promise<void> {
  for (let nth = 0; nth < looks && !(await isTold()); nth++) {
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
  }
  await changed('nodes', 'tasks', 'audit')
}
