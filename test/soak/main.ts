/**
 * npm run soak [-- CAMPAIGN… [--seed N] [--minutes M | --runs N] | --resume]
 *
 * Runs campaigns one after the other and writes each one's result to docs/evidence.md as soon as it is there. Ends
 * with 1 when a promise was found broken, after the campaigns that remain.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createProgress } from '../../bench/progress.ts'
import { type Campaign, CampaignFailure, type CampaignResult } from './campaign.ts'
import { campaigns } from './campaigns.ts'
import { parseSoak, replayCommand, usage } from './command.ts'
import { type Finding, withFinding } from './evidence.ts'
import { findState, remaining, removeState, type SoakState, writeState } from './state.ts'

const root = new URL('../../', import.meta.url)
const statePath = fileURLToPath(new URL('.signalbox/soak.json', root))
const evidencePath = fileURLToPath(new URL('docs/evidence.md', root))

// Exits instead of dying, so that what campaigns started is cleared away.
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  process.once(signal, () => process.exit(code))

process.exitCode = await main(process.argv.slice(2))

async function main(argv: string[]): Promise<number> {
  let state: SoakState
  try {
    state = resolveState(argv)
  } catch (error) {
    console.error(`${(error as Error).message}\n${usage}`)
    return 2
  }
  writeState(statePath, state)
  console.log(`Seed ${state.seed}. When interrupted: npm run soak -- --resume`)

  let failed = false
  for (const name of remaining(state)) {
    const campaign = campaigns.find((one) => one.name === name)!
    console.log(`${name}: ${campaign.description}`)
    const finding = await soak(campaign, state)
    failed ||= finding.result !== 'passed'
    record(finding)
    state = { ...state, finished: [...state.finished, name] }
    writeState(statePath, state)
  }
  removeState(statePath)
  return failed ? 1 : 0
}

function resolveState(argv: string[]): SoakState {
  const known = campaigns.map(({ name }) => name)
  const request = parseSoak(argv, known, Math.floor(Math.random() * 1_000_000_000))
  if (!('resume' in request)) return { ...request, finished: [] }
  const state = findState(statePath)
  if (!state) throw new Error('There is no interrupted soak to go on with.')
  // The list may have changed since.
  return { ...state, campaigns: state.campaigns.filter((name) => known.includes(name)) }
}

/** Runs one campaign, says how it ended, and never throws: the others still have their turn. */
async function soak(campaign: Campaign, { seed, scale }: SoakState): Promise<Finding> {
  const startedAt = performance.now()
  // Read first: a campaign takes long, and what is committed meanwhile is not what it ran.
  const signalbox = version()
  let result = 'passed'
  let found: CampaignResult = { counts: {} }
  {
    using progress = createProgress()
    try {
      found = await campaign.run({ seed, scale, progress: (detail) => progress.show(campaign.name, detail) })
    } catch (error) {
      result = `failed: ${(error as Error).message.split('\n')[0]}`
      console.error(error)
      if (error instanceof CampaignFailure) {
        const replay = replayCommand(campaign.name, error.seed)
        result += ` (${replay})`
        console.error(`Replay: ${replay}`)
      }
    }
  }
  const durationMs = performance.now() - startedAt
  const counted = Object.entries(found.counts).map(([name, count]) => `${count} ${name}`)
  console.log(`${campaign.name}: ${[result, ...counted].join(', ')}, ${Math.round(durationMs / 1_000)} s`)
  for (const note of found.notes ?? []) console.log(note)
  return {
    campaign: campaign.name,
    module: campaign.module,
    result,
    counts: found.counts,
    seed,
    durationMs,
    node: process.versions.node,
    signalbox,
    date: new Date().toISOString().slice(0, 10),
    notes: found.notes ?? [],
  }
}

function record(finding: Finding): void {
  let text = ''
  try {
    text = readFileSync(evidencePath, 'utf8')
  } catch {
    // The first result makes the file.
    mkdirSync(new URL('docs/', root), { recursive: true })
  }
  writeFileSync(evidencePath, withFinding(text, finding))
}

/** The package's version, the commit, and whether the files differ from it: evidence is about exact code. */
function version(): string {
  const { version } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { version: string }
  try {
    const git = (...args: string[]): string =>
      execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
    const changed = git('status', '--porcelain', '--', 'src', 'test') !== ''
    return `${version} (${git('rev-parse', '--short', 'HEAD')}${changed ? ', changed' : ''})`
  } catch {
    return version
  }
}
