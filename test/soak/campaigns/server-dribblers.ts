import { open } from 'signalbox'
import { createServer } from 'signalbox/server'
import { dribble, percentile } from '../../http/server/security/dribblers.ts'
import { type Campaign, inPieces } from '../campaign.ts'

/** The dribblers of test/http/server/security at full size, against the default limits. */
export const serverDribblers: Campaign = {
  name: 'server-dribblers',
  module: 'server',
  description: '2,000 clients that never finish their requests, for a minute, and a good one',
  run: async (request) => ({ counts: await inPieces(request, attack) }),
}

async function attack(): Promise<Record<string, number>> {
  await using box = await open('memory:')
  await using server = createServer({ box, port: 0 })
  const { url } = await server.listen()
  const { goodMs, badAnswers, cut } = await dribble({ url, dribblers: 2_000, forMs: 60_000, everyMs: 1_000 })
  const p99 = percentile(goodMs, 0.99)
  if (badAnswers > 0) throw new Error(`${badAnswers} good requests were not answered with 200`)
  if (!(p99 <= 1_000)) throw new Error(`the 99th percentile of good requests was ${Math.round(p99)} ms`)
  if (cut < 2_000) throw new Error(`only ${cut} dribblers were cut`)
  return { goodRequests: goodMs.length, dribblersCut: cut }
}
