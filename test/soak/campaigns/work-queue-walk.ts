import { walk } from '../../work-queue/model/walk.ts'
import { type Campaign, inPieces } from '../campaign.ts'

/** Enough walks that a piece takes seconds, few enough that its replay does too. */
const walksPerPiece = 200

/** Random operations on a queue and on a naive model of it, under a clock moved by hand; they must never differ. */
export const workqueueWalk: Campaign = {
  name: 'workqueue-walk',
  module: 'workqueue',
  description: 'runs the same random operations on a queue and on a naive model, and compares them',
  run: async (request) => ({
    counts: await inPieces(request, async (seed) => {
      const { operations } = await walk({ runs: walksPerPiece, seed })
      return { walks: walksPerPiece, operations }
    }),
  }),
}
