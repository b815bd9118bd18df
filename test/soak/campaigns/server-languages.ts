import { workInLanguages } from '../../crashes/languages/languages.ts'
import { type Campaign, inPieces } from '../campaign.ts'

/** The languages test of test/crashes at full size. */
export const serverLanguages: Campaign = {
  name: 'server-languages',
  module: 'server',
  description: 'kills the server under workers in Python, shell and TypeScript',
  run: async (request) => ({
    counts: await inPieces(request, (seed) => workInLanguages({ seed, jobs: 1_000, kills: 10 })),
  }),
}
