import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type Copy, decodeReport, type Mutation, mutated } from './mutate.ts'
import { mutationCampaign } from './mutations.ts'

const mutation: Mutation = {
  file: 'src/a.ts',
  find: 'a < b',
  replace: 'a <= b',
  breaks: 'the end is left out',
}
const request = { seed: 1, scale: { kind: 'runs', runs: 1 }, progress: () => {} } as const

test('a mutation changes only the place it names', () => {
  assert.equal(mutated('if (a < b) x()', mutation), 'if (a <= b) x()')
  assert.equal(mutated('a < b', { ...mutation, replace: '$&' }), '$&')
})

test('an outdated or ambiguous mutation is an error', () => {
  assert.throws(() => mutated('if (a > b) x()', mutation), /no longer has "a < b"/)
  assert.throws(() => mutated('a < b; a < b', mutation), /more than once/)
})

test('a report names the failed tests, and refuses a file that did not load', () => {
  const report = (testResults: unknown[], numTotalTests = 2): string =>
    JSON.stringify({ numTotalTests, testResults })
  const passed = { fullName: ' fine', status: 'passed' }
  const failed = { fullName: ' broken', status: 'failed' }
  const file = { name: 'a.test.ts', message: '', status: 'failed' }
  assert.deepEqual(decodeReport(report([{ ...file, assertionResults: [passed, failed] }])), ['broken'])
  assert.throws(() => decodeReport(report([{ ...file, assertionResults: [] }])), /a\.test\.ts did not load/)
  assert.throws(() => decodeReport(report([], 0)), /no tests/)
})

/** A project whose tests fail as the script says: first as it is, then for each mutation. */
function aCopy(asItIs: string[], ...mutated: string[][]): () => Copy {
  const answers = [asItIs, ...mutated]
  return () => ({
    failing: async () => answers.shift()!,
    apply: () => ({ [Symbol.dispose]: () => {} }),
    [Symbol.dispose]: () => {},
  })
}

function campaign(copy: () => Copy, mutations: Mutation[]): ReturnType<typeof mutationCampaign> {
  return mutationCampaign({ module: 'workqueue', paths: ['test/work-queue'], mutations, copy })
}

test('a mutation campaign lists the tests that noticed it', async () => {
  const { counts, notes } = await campaign(aCopy([], ['x ends', 'y', 'z']), [mutation]).run(request)
  assert.deepEqual(counts, { mutations: 1, caught: 1 })
  assert.deepEqual(notes, [
    '- the end is left out (src/a.ts: `a < b` → `a <= b`): caught by "x ends", and 2 more',
  ])
})

test('an unnoticed mutation fails the campaign, after the others', async () => {
  const survivor = { ...mutation, breaks: 'order' }
  const running = campaign(aCopy([], [], ['x']), [survivor, mutation]).run(request)
  await assert.rejects(running, /^Error: 1 of 2: nothing notices when this breaks: order$/)
})

test('tests that fail on unchanged code make a mutation run invalid', async () => {
  await assert.rejects(campaign(aCopy(['x']), [mutation]).run(request), /fail before any mutation: x/)
})
