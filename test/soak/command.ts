import { parseArgs } from 'node:util'
import type { Scale } from './campaign.ts'

/** What a soak was asked to do. */
export interface SoakRequest {
  readonly campaigns: readonly string[]
  readonly seed: number
  readonly scale: Scale
}

/** Asked to go on with the last soak, which knows the rest. */
export interface ResumeRequest {
  readonly resume: true
}

export const usage: string =
  'Usage: npm run soak [-- CAMPAIGN… [--seed N] [--minutes M | --runs N] | --resume]\n' +
  'Without a campaign all of them run, ten minutes each.'

const defaultMinutes = 10

/** Makes argv whole; throws one sentence when it cannot. `randomSeed` is taken when no seed was given. */
export function parseSoak(
  argv: readonly string[],
  known: readonly string[],
  randomSeed: number,
): SoakRequest | ResumeRequest {
  const { values, positionals } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      seed: { type: 'string' },
      minutes: { type: 'string' },
      runs: { type: 'string' },
      resume: { type: 'boolean', default: false },
    },
  })
  if (values.resume) {
    // Another seed or scale would make the resumed half a different soak.
    if (argv.length > 1)
      throw new RangeError('--resume goes on as the last soak began and takes nothing beside it.')
    return { resume: true }
  }
  for (const name of positionals) {
    if (!known.includes(name))
      throw new RangeError(`There is no campaign "${name}". There are: ${known.join(', ')}.`)
  }
  if (values.minutes !== undefined && values.runs !== undefined) {
    throw new RangeError('Give --minutes or --runs, not both.')
  }
  return {
    campaigns: positionals.length > 0 ? [...new Set(positionals)] : known,
    seed: values.seed === undefined ? randomSeed : wholeNumber('--seed', values.seed, 0),
    scale:
      values.runs === undefined
        ? { kind: 'minutes', minutes: positiveNumber('--minutes', values.minutes ?? String(defaultMinutes)) }
        : { kind: 'runs', runs: wholeNumber('--runs', values.runs, 1) },
  }
}

/** The command that shows a failure again. */
export function replayCommand(campaign: string, seed: number): string {
  return `npm run soak -- ${campaign} --seed ${seed} --runs 1`
}

function wholeNumber(name: string, text: string, least: number): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isSafeInteger(value) || value < least) {
    throw new RangeError(`${name} takes a whole number from ${least} on, not "${text}".`)
  }
  return value
}

function positiveNumber(name: string, text: string): number {
  const value = Number(text)
  if (!(value > 0 && value < Number.POSITIVE_INFINITY)) {
    throw new RangeError(`${name} takes a number above 0, not "${text}".`)
  }
  return value
}
