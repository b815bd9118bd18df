import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'vitest'
import { CampaignFailure, inPieces } from './campaign.ts'
import { parseSoak, replayCommand } from './command.ts'
import { type Finding, withFinding } from './evidence.ts'
import { findState, remaining, removeState, writeState } from './state.ts'

const known = ['walk', 'fuzz']

test('a soak without arguments runs every campaign for ten minutes with a random seed', () => {
  assert.deepEqual(parseSoak([], known, 7), {
    campaigns: known,
    seed: 7,
    scale: { kind: 'minutes', minutes: 10 },
  })
})

test('campaigns, seed and scale can be given', () => {
  assert.deepEqual(parseSoak(['fuzz', '--seed', '12', '--runs', '3', 'fuzz'], known, 7), {
    campaigns: ['fuzz'],
    seed: 12,
    scale: { kind: 'runs', runs: 3 },
  })
  assert.deepEqual(parseSoak(['--minutes', '0.5'], known, 7), {
    campaigns: known,
    seed: 7,
    scale: { kind: 'minutes', minutes: 0.5 },
  })
  assert.deepEqual(parseSoak(['--resume'], known, 7), { resume: true })
})

test('invalid arguments are refused in one sentence', () => {
  for (const [argv, said] of [
    [['swim'], /There is no campaign "swim". There are: walk, fuzz/],
    [['--seed', '-1'], /--seed/],
    [['--seed=1.5'], /--seed takes a whole number/],
    [['--runs', '0'], /--runs takes a whole number from 1/],
    [['--minutes', 'x'], /--minutes takes a number above 0/],
    [['--minutes', '1', '--runs', '1'], /not both/],
    [['--resume', '--seed', '1'], /takes nothing beside it/],
    [['--fast'], /Unknown option/],
  ] as const) {
    assert.throws(() => parseSoak(argv, known, 7), said)
  }
})

test('pieces have consecutive seeds and their counts add up', async () => {
  const seeds: number[] = []
  const counts = await inPieces(
    { seed: 40, scale: { kind: 'runs', runs: 3 }, progress: () => {} },
    async (seed) => {
      seeds.push(seed)
      return { operations: 10 }
    },
  )
  assert.deepEqual(seeds, [40, 41, 42])
  assert.deepEqual(counts, { pieces: 3, operations: 30 })
})

test('minutes end a campaign after the present piece, and at least one piece runs', async () => {
  let now = 0
  const piece = (): { operations: number } => {
    now += 20_000
    return { operations: 1 }
  }
  const minutes = (minutes: number): Promise<unknown> =>
    inPieces({ seed: 1, scale: { kind: 'minutes', minutes }, progress: () => {} }, piece, () => now)
  assert.deepEqual(await minutes(1), { pieces: 3, operations: 3 })
  assert.deepEqual(await minutes(0.001), { pieces: 1, operations: 1 })
})

test('a failure names the seed of its piece, and the command that repeats it', async () => {
  const failing = inPieces({ seed: 40, scale: { kind: 'runs', runs: 3 }, progress: () => {} }, (seed) => {
    if (seed === 41) throw new Error('two hands')
    return {}
  })
  await assert.rejects(failing, (error: unknown) => {
    assert.ok(error instanceof CampaignFailure)
    assert.equal(error.seed, 41)
    assert.equal(error.message, 'two hands')
    return true
  })
  assert.equal(replayCommand('walk', 41), 'npm run soak -- walk --seed 41 --runs 1')
})

test('an interrupted soak continues with its unfinished campaigns', () => {
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-soak-'))
  try {
    const path = join(folder, 'deep', 'soak.json')
    assert.equal(findState(path), undefined)
    const state = { ...parsed(), finished: ['walk'] }
    writeState(path, state)
    assert.deepEqual(findState(path), state)
    assert.deepEqual(remaining(findState(path)!), ['fuzz'])
    removeState(path)
    removeState(path)
    assert.equal(findState(path), undefined)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('an unknown campaign ends with 2, the list of campaigns and the usage', () => {
  const main = fileURLToPath(new URL('main.ts', import.meta.url))
  const { status, stderr } = spawnSync(process.execPath, ['--conditions=source', main, 'swim'], {
    encoding: 'utf8',
  })
  assert.equal(status, 2)
  assert.match(
    stderr,
    /There is no campaign "swim". There are: workqueue-walk, workqueue-mutations.*\nUsage: npm run/,
  )
})

function parsed(): { campaigns: string[]; seed: number; scale: { kind: 'runs'; runs: number } } {
  return { campaigns: known, seed: 3, scale: { kind: 'runs', runs: 1 } }
}

const finding: Finding = {
  campaign: 'walk',
  module: 'workqueue',
  result: 'passed',
  counts: { pieces: 2, operations: 12_345 },
  seed: 40,
  durationMs: 61_000,
  node: '24.21.0',
  signalbox: '0.1.0 (abc)',
  date: '2026-01-02',
  notes: [],
}

test('evidence keeps the last result of each campaign, and the notes of the others', () => {
  const first = withFinding('', finding)
  assert.match(first, /^# Evidence\n/)
  assert.ok(
    first.includes(
      '| walk | workqueue | passed | 2 pieces, 12,345 operations | 40 | 61 s | 24.21.0 | 0.1.0 (abc) | 2026-01-02 |\n',
    ),
  )

  const second = withFinding(first, { ...finding, campaign: 'workqueue-mutations', notes: ['- a', '- b'] })
  const third = withFinding(second, { ...finding, seed: 99, durationMs: 600_000 })
  assert.equal(third.match(/^\| walk \|/gm)!.length, 1)
  assert.match(third, /\| 99 \| 10 min \|/)
  assert.match(third, /\n## workqueue-mutations\n\n- a\n- b\n$/)
  assert.equal(withFinding(third, { ...finding, seed: 99, durationMs: 600_000 }), third)
  assert.doesNotMatch(withFinding(third, { ...finding, campaign: 'workqueue-mutations' }), /^## /m)
})

test('a message with bars and line breaks stays in its cell', () => {
  const text = withFinding('', { ...finding, result: 'failed: a | b\nc' })
  assert.ok(text.includes('| failed: a \\| b c |'))
})
