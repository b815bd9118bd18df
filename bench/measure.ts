/**
 * Measures a trial in rounds. Every measurement is a separate process with the same flags, so no contestant runs in a heap
 * or under type feedback that another one left behind. Within a round contestants take turns, and each round starts with
 * the next one (A B C, B C A, …): other load on the machine hits all of them alike.
 */
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Conditions, Figures, Ground, Trial } from './case.ts'
import type { Outcome } from './report.ts'

/** The settings every contestant runs under. */
export const childFlags: readonly string[] = ['--conditions=source', '--expose-gc']

export interface Measurement {
  readonly module: string
  readonly trial: string
  readonly contestant: string
  readonly conditions: Conditions
  /** @default 180_000 */
  readonly deadlineMs?: number | undefined
}

/** Takes one measurement; rejects with the reason when the contestant could not run. */
export type Measure = (measurement: Measurement) => Promise<Figures>

export interface MeasureOptions {
  readonly rounds: number
  readonly quick: boolean
  readonly full?: boolean
  readonly measure: Measure
  /** Told before each measurement. */
  readonly progress: (round: number, contestant: string) => void
}

/** Runs every round of a trial; a contestant that fails is not tried again and keeps its reason. */
export async function measureTrial(
  module: string,
  trial: Trial,
  { rounds: usual, quick, full = false, measure, progress }: MeasureOptions,
): Promise<Map<string, Outcome>> {
  const { rounds = usual, deadlineMs } = trial
  const names = Object.keys(trial.contestants)
  let ground: Ground | undefined
  try {
    ground = await trial.open?.()
  } catch (error) {
    const reason = messageOf(error)
    return new Map(names.map((name) => [name, { reason }]))
  }
  await using _ground = ground

  const taken = new Map<string, Figures[]>(names.map((name) => [name, []]))
  const failed = new Map<string, Outcome>()
  for (let round = 1; round <= rounds; round++) {
    for (const contestant of turns(names, round)) {
      if (failed.has(contestant)) continue
      progress(round, contestant)
      const conditions = { quick, full, settings: ground?.settings ?? {} }
      try {
        taken
          .get(contestant)!
          .push(await measure({ module, trial: trial.name, contestant, conditions, deadlineMs }))
      } catch (error) {
        failed.set(contestant, { reason: messageOf(error) })
      }
    }
  }
  return new Map(names.map((name) => [name, failed.get(name) ?? { rounds: taken.get(name)! }]))
}

/** The order of one round: everyone once, the first of the last round at the end. */
export function turns(names: readonly string[], round: number): string[] {
  const start = (round - 1) % names.length
  return [...names.slice(start), ...names.slice(0, start)]
}

const usualDeadlineMs = 180_000

/** Measures in a fresh process. */
export function measureInChild(measurement: Measurement): Promise<Figures> {
  const { promise, resolve, reject } = Promise.withResolvers<Figures>()
  const { deadlineMs = usualDeadlineMs } = measurement
  const child = fork(fileURLToPath(new URL('child.ts', import.meta.url)), [JSON.stringify(measurement)], {
    execArgv: [...childFlags],
    // A contestant may print; the last line of stdout belongs to the report.
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  let complaint = ''
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-2_000)
  })
  const timer = setTimeout(() => {
    child.kill('SIGKILL')
    reject(new Error(`took longer than ${deadlineMs / 1_000} s`))
  }, deadlineMs)
  child.on('message', (message: { figures: Figures } | { reason: string }) => {
    if ('figures' in message) resolve(message.figures)
    else reject(new Error(message.reason))
  })
  child.on('error', reject)
  child.on('close', (code, signal) => {
    clearTimeout(timer)
    // Settled already when it answered; this is for those that died first.
    // Node's own last words are its version, not the reason.
    const words = complaint.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('Node.js v'))
    reject(new Error(words.at(-1) ?? `ended with ${signal ?? code} and no figures`))
  })
  return promise
}

function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0]!
}
