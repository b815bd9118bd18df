/** Many nodes of the race in one process, and what they have seen. */
import { answer, orderOf } from './forked.ts'
import { RaceNode, type RaceTally } from './race-node.ts'

export interface RaceNodesOrder {
  readonly name: string
  readonly count: number
  readonly slots: number
  readonly ports: readonly number[]
}

/** The tally as it is told. */
export interface RaceReading {
  readonly overCommitted: number
  readonly running: number
  readonly settled: number
  readonly welcomes: number
}

const { name, count, slots, ports } = orderOf<RaceNodesOrder>()
const tally: RaceTally = { overCommitted: 0, running: 0, welcomes: 0, settled: new Set() }
for (let number = 0; number < count; number++)
  new RaceNode({ nodeId: `${name}-${number}`, slots, ports, tally })

answer({
  read: (): RaceReading => ({ ...tally, settled: tally.settled.size }),
})
