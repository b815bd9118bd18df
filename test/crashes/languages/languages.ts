/**
 * Workers in three languages on one server, which is killed with -9 and restarted while they work. Producers and workers
 * repeat each request with the same Idempotency-Key until there is an answer, so every job is added once and completed
 * once. A job may *run* twice: when an answer was lost for longer than its lease.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { JobRecord } from '../../../src/jobs/index.ts'
import { openBackend } from '../../../src/storage/open.ts'
import { within } from '../../support/deadline.ts'
import { findInterpreter } from '../../support/interpreters.ts'
import { createFolder } from '../../support/services/folder.ts'
import { type Program, startProgram } from '../../support/services/program.ts'
import { createRandom, type Random } from '../random.ts'
import { type ServeProcess, startServe } from '../serve-process.ts'
import type { Counts } from '../stage.ts'

export interface LanguagesOptions {
  readonly seed: number
  readonly jobs: number
  readonly kills: number
  /** How long the work may take from the start; what is under way then ends within `afterwardsMs`. @default 300_000 */
  readonly workMs?: number
}

/** The most that comes after `workMs`: a server that is just starting, and all of them leaving. */
export const afterwardsMs = 60_000

const languages = ['python', 'shell', 'typescript'] as const
type Language = (typeof languages)[number]

const leaveMs = 10_000
const askMs = 5_000

export async function workInLanguages({
  seed,
  jobs,
  kills,
  workMs = 300_000,
}: LanguagesOptions): Promise<Counts> {
  const late = AbortSignal.timeout(workMs)
  const random = createRandom(seed)
  await using kept = new AsyncDisposableStack()
  const { path } = kept.use(createFolder('languages'))
  const [database, runsFile] = [`sqlite:${join(path, 'store.db')}`, join(path, 'runs')]
  const server = kept.use(await startServe(database))
  const workers = new Map<Language, Program>()
  for (const language of languages)
    workers.set(language, kept.use(await startWorker(language, server.url, runsFile)))
  for (const [language, program] of workers) await begun(language, program, late)

  const ids = await addAmidKills(
    (over) => addAll(server.url, jobs, random, over),
    (over) => killOften(server, kills, () => readRuns(runsFile).length, jobs, random, over),
    late,
  )
  await drained(server.url, workers, late)
  await Promise.all([...workers].map(([language, program]) => leave(language, program)))
  await within(leaveMs, 'the server’s stop', server.stop())
  return { kills, ...judge(ids, await readRecords(database), readRuns(runsFile)) }
}

async function startWorker(language: Language, url: string, runs: string): Promise<Program> {
  const examples = join(import.meta.dirname, '..', '..', '..', 'examples')
  const beside = (name: string) => join(import.meta.dirname, name)
  const commands: Readonly<Record<Language, () => Promise<readonly string[]>>> = {
    python: async () => [await findInterpreter('python3'), beside('language-worker.py'), examples],
    shell: async () => {
      await findInterpreter('curl')
      const command = 'echo "shell $JOB_ID" >>"$RUNS"'
      return [await findInterpreter('bash'), join(examples, 'worker.sh'), 'languages', 'sh', '-c', command]
    },
    typescript: async () => [process.execPath, '--conditions=source', beside('language-worker.ts')],
  }
  // `env` becomes the worker itself, so the id is the worker's.
  return startProgram('env', [`SIGNALBOX_URL=${url}`, `RUNS=${runs}`, ...(await commands[language]())])
}

/** All of them say that they work when they do. */
async function begun(language: Language, program: Program, late: AbortSignal): Promise<void> {
  for (; !program.tail().includes('works for'); await sleep(20))
    if (program.ended !== undefined || late.aborted)
      throw new Error(`the ${language} worker did not begin: ${program.ended}: ${program.tail()}`)
}

/** Does both at once; when one fails the other stops too, and is waited for, before that is thrown. */
async function addAmidKills<Ids>(
  add: (over: AbortSignal) => Promise<Ids>,
  kill: (over: AbortSignal) => Promise<void>,
  late: AbortSignal,
): Promise<Ids> {
  const failed = new AbortController()
  const over = AbortSignal.any([failed.signal, late])
  const both = [add(over), kill(over)] as const
  for (const one of both) one.catch((error: unknown) => failed.abort(error))
  await Promise.allSettled(both)
  failed.signal.throwIfAborted()
  return both[0]
}

/** Adds the jobs in batches, each until it is answered for; gives their ids. */
async function addAll(
  url: string,
  count: number,
  random: Random,
  over: AbortSignal,
): Promise<readonly string[]> {
  const ids: string[] = []
  while (ids.length < count) {
    const batch = Array.from({ length: Math.min(10, count - ids.length) }, () => ({
      kind: 'languages',
      payload: { ms: random.whole(0, 150) },
    }))
    const { items } = await insist(`${url}/v1/jobs`, batch, over)
    ids.push(...(items as readonly { id: string }[]).map(({ id }) => id))
  }
  return ids
}

/** Posts until there is an answer, always with the same key. */
async function insist(url: string, body: unknown, over: AbortSignal): Promise<{ items: unknown }> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': crypto.randomUUID() }
  for (; ; await sleep(50)) {
    try {
      const signal = AbortSignal.any([over, AbortSignal.timeout(askMs)])
      const reply = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body), signal })
      if (reply.ok) return (await reply.json()) as { items: unknown }
      if (reply.status < 500) throw new Refusal(`${reply.status}: ${await reply.text()}`)
    } catch (error) {
      if (error instanceof Refusal || over.aborted) throw error
    }
  }
}

class Refusal extends Error {}

/** Spreads the kills over the work: each comes after a number of further runs. */
async function killOften(
  server: ServeProcess,
  kills: number,
  runCount: () => number,
  jobs: number,
  random: Random,
  over: AbortSignal,
): Promise<void> {
  const perKill = Math.floor(jobs / (kills + 1))
  for (let kill = 1; kill <= kills; kill++) {
    const due = perKill * kill - random.whole(0, Math.floor(perKill / 2))
    for (; runCount() < due; await sleep(20))
      if (over.aborted) throw new Error(`only ${runCount()} jobs were run, and ${due} were to be`)
    await server.kill()
    await sleep(random.whole(0, 400))
    await server.restart()
  }
}

async function drained(
  url: string,
  workers: ReadonlyMap<Language, Program>,
  late: AbortSignal,
): Promise<void> {
  for (; ; await sleep(100)) {
    const reply = await fetch(`${url}/v1/queues`, { signal: AbortSignal.timeout(askMs) })
    const { items } = (await reply.json()) as { items: readonly Record<string, number>[] }
    const left = items.reduce((sum, line) => sum + line.scheduled! + line.ready! + line.running!, 0)
    if (left === 0) return
    if (late.aborted) {
      const said = [...workers].map(([language, program]) => `${language}: ${program.tail().slice(-500)}`)
      throw new Error(`${left} jobs had not ended in time\n${said.join('\n')}`)
    }
  }
}

/** One that stays is made to end with everything else that is kept. */
async function leave(language: Language, program: Program): Promise<void> {
  if (program.ended === undefined) process.kill(program.pid, 'SIGTERM')
  await Promise.race([program.end, sleep(leaveMs, undefined, { ref: false })])
  if (program.ended !== 'code 0')
    throw new Error(`the ${language} worker was to leave and ended with ${program.ended}: ${program.tail()}`)
}

interface Run {
  readonly language: string
  readonly jobId: string
}

function readRuns(file: string): readonly Run[] {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1)
  return lines.map((line) => {
    const [language = '', jobId = ''] = line.split(' ')
    return { language, jobId }
  })
}

async function readRecords(database: string): Promise<readonly JobRecord[]> {
  await using backend = await openBackend(database, { namespace: 'default', migrate: false })
  const records: JobRecord[] = []
  for (;;) {
    const before = records.at(-1)?.id
    const page = await backend.jobs.list({ limit: 500, ...(before === undefined ? {} : { before }) })
    records.push(...page)
    if (page.length < 500) return records
  }
}

/** Compares what was added, what the store says became of it, and what the handlers wrote. */
function judge(ids: readonly string[], records: readonly JobRecord[], runs: readonly Run[]): Counts {
  const complaints: string[] = []
  const added = new Set(ids)
  const runsOf = Map.groupBy(runs, ({ jobId }) => jobId)
  if (added.size !== ids.length) complaints.push('an id was answered for two adds')
  for (const { id } of records)
    if (!added.has(id)) complaints.push(`job ${id} was added, but no client got the answer`)
  if (records.length < added.size) complaints.push(`${added.size - records.length} jobs are gone`)
  for (const { id, state, attempt, workerId, error } of records) {
    const ran = runsOf.get(id)?.length ?? 0
    if (state !== 'completed')
      complaints.push(`job ${id} is ${state} after ${attempt} attempts, the last by ${workerId}: ${error}`)
    if (ran === 0) complaints.push(`job ${id} is ${state}, but no worker ran it`)
    // A run without a claim would be work that no claim handed out.
    if (ran > attempt) complaints.push(`job ${id} was run ${ran} times in ${attempt} attempts`)
  }
  const byLanguage = Map.groupBy(runs, ({ language }) => language)
  for (const language of languages)
    if (!byLanguage.has(language)) complaints.push(`the ${language} worker did nothing`)
  if (complaints.length > 0)
    throw new Error(`${complaints.length} complaints:\n${complaints.slice(0, 20).join('\n')}`)
  const counted = languages.map(
    (language) => [`runs in ${language}`, byLanguage.get(language)!.length] as const,
  )
  const attempts = records.reduce((sum, { attempt }) => sum + attempt, 0)
  return { completed: records.length, attempts, runs: runs.length, ...Object.fromEntries(counted) }
}
