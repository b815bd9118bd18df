import { fuzzServer } from '../../http/server/fuzz/campaign.ts'
import { serving } from '../../http/server/stage.ts'
import { type Campaign, inPieces } from '../campaign.ts'

/** The fuzz of test/http/server at full size, with another seed each time. */
export const serverFuzz: Campaign = {
  name: 'server-fuzz',
  module: 'server',
  description: '50,000 malformed requests, and a good client that must not notice',
  run: async (request) => ({ counts: await inPieces(request, attack) }),
}

async function attack(seed: number): Promise<Record<string, number>> {
  await using stage = await serving(
    { maxFailuresPerAddress: 1_000_000 },
    (folder) => `sqlite:${folder}/fuzz.db`,
  )
  const { requests, refused, taken, cut, neighbourP99Ms } = await fuzzServer(
    Number(new URL(stage.url).port),
    {
      seed,
      requests: 50_000,
    },
  )
  if (!(neighbourP99Ms < 500)) throw new Error(`the neighbour waited ${neighbourP99Ms} ms`)
  const { status } = await stage.ask('GET', '/readyz')
  if (status !== 200) throw new Error(`the server was not ready afterwards, but ${status}`)
  return { requests, refused, taken, cut }
}
