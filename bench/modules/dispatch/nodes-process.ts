/** Many light nodes in one process. */
import { answer, orderOf } from './forked.ts'
import { LightNode } from './light-node.ts'

export interface NodesOrder {
  readonly port: number
  readonly name: string
  readonly count: number
  readonly slots: number
}

const { port, name, count, slots } = orderOf<NodesOrder>()
const nodes: LightNode[] = []

answer({
  /** All are welcomed; in parts, so that the backlog of the listening socket is never full. */
  async connect() {
    while (nodes.length < count) {
      const part = Array.from({ length: Math.min(100, count - nodes.length) }, (_, at) => {
        const nodeId = `${name}-${nodes.length + at}`
        return new LightNode({ port, nodeId, services: { asr: slots } })
      })
      nodes.push(...part)
      await Promise.all(part.map(({ welcomed }) => welcomed))
    }
  },
  lost: () => nodes.filter(({ isOpen }) => !isOpen).length,
  settled: () => nodes.reduce((sum, { settledCount }) => sum + settledCount, 0),
})
