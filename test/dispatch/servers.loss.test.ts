import assert from 'node:assert/strict'
import { test } from 'vitest'
import { Board } from '../../src/dispatch/board.ts'
import type { FleetStore } from '../../src/dispatch/fleetstore.ts'
import { Holdings } from '../../src/dispatch/holdings.ts'
import { openStore, until } from './servicestage.ts'

test('a node whose row the store lost before anybody had read it is put back', async () => {
  await using before = await openStore('memory')
  await using after = await openStore('memory')
  // Versions rise for ever, also those of a store that lost everything.
  const pools = Array.from({ length: 20 }, (_, nr) => ({ kind: 'pool', key: `p${nr}`, seen: 0 }) as const)
  await after.backend.fleet.write(pools.map((pool) => ({ ...pool, doc: '{}', forMs: null })))
  let [fleet, isReset] = [before.backend.fleet, false]
  const store: FleetStore = {
    find: (kind, key) => fleet.find(kind, key),
    write: (writes) => fleet.write(writes),
    prune: (limit, olderThanMs) => fleet.prune(limit, olderThanMs),
    async read(since, limit) {
      const page = await fleet.read(isReset ? 0 : since, limit)
      const wasReset = isReset
      isReset = false
      return { ...page, isReset: wasReset }
    },
  }
  const troubles: unknown[] = []
  const shared = { monotonicMs: () => performance.now(), onTrouble: (error: unknown) => troubles.push(error) }
  const board = new Board({ store, bell: before.backend.bell, ...shared })
  const holdings = new Holdings({
    ...{
      board,
      serverId: 'east',
      leastEpoch: () => 1,
      lost: assert.fail,
      changed: () => undefined,
      ...shared,
    },
  })
  await before.backend.fleet.write([{ kind: 'pool', key: 'p0', seen: 0, doc: '{}', forMs: null }])
  await board.catchUp()
  const caller = { nodeId: 'n1', instanceId: 'one', services: [], labels: {}, epoch: 1, holder: {} }
  const entered = Promise.withResolvers<unknown>()
  holdings.enter({ ...caller, isThere: () => true }, entered.resolve)
  assert.ok(await entered.promise)
  ;[fleet, isReset] = [after.backend.fleet, true]

  await board.catchUp()
  await until('its row is there again', async () => {
    holdings.mend()
    const row = await fleet.find('node', 'n1')
    return row?.doc !== undefined
  })
  await board.catchUp()
  const { version } = board.rows('node').get('n1')!
  holdings.mend()
  await board.catchUp()
  assert.equal(board.rows('node').get('n1')!.version, version, 'what is there is not written again')
  assert.deepEqual(troubles, [])
})
