/**
 * A copy from SQLite to a server is killed with -9 many times: at its start, within pages and during its proof. The last
 * run must succeed, and both sides must have the same rows: by the copy's proof, repeated here, and by an independent one.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type CopyReport, compare } from '../../../src/copy/index.ts'
import { isSignalboxError } from '../../../src/core/errors.ts'
import { open } from '../../../src/index.ts'
import { openCopyEnd } from '../../../src/storage/index.ts'
import { connect, type Ground } from '../ground.ts'
import { createRandom } from '../random.ts'
import type { Counts } from '../stage.ts'

export interface CopyKillingPlan {
  readonly seed: number
  readonly jobs: number
  readonly kills: number
  readonly pageRows: number
}

const main = fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url))

export async function copyThroughKills(ground: Ground, plan: CopyKillingPlan): Promise<Counts> {
  const random = createRandom(plan.seed)
  const from = `sqlite:${join(ground.folder, 'source.db')}`
  await fill(from, plan.jobs)

  let survivedRows = 0
  for (let kill = 0; kill < plan.kills; kill++) {
    // The first before or while it begins, the last while it proves; the others somewhere among the rows.
    const share = kill === 0 ? 0 : kill === plan.kills - 1 ? 1 : (kill - 1 + random()) / (plan.kills - 2)
    const program = start(from, ground.url, plan)
    const rows = await rowsReached(program, ground.url, Math.floor(share * plan.jobs), share === 0)
    if (share === 0) await sleep(random.whole(0, 400))
    if (share === 1) await sleep(random.whole(0, 40))
    await killNow(program)
    if (rows < survivedRows)
      throw new Error(`a kill lost pages that were written: ${survivedRows}, then ${rows}`)
    survivedRows = rows
    await requireShut(ground.url)
  }

  const report = await end(start(from, ground.url, plan))
  if (report.jobs !== plan.jobs) throw new Error(`${plan.jobs} jobs became ${report.jobs}`)
  const { sha256 } = await compare(from, ground.url)
  if (sha256 !== report.sha256)
    throw new Error(`the copy's proof was ${report.sha256}, and ours is ${sha256}`)
  const [ours, theirs] = [await ownProof(from), await ownProof(ground.url)]
  if (ours !== theirs) throw new Error(`jobs differ: ${ours} in the source, ${theirs} in the target`)
  return { jobs: report.jobs, kills: plan.kills, 'rows that outlived kills': survivedRows }
}

/** Jobs that wait, every tenth of them with a history, some with logs, keys and needs. */
async function fill(url: string, count: number): Promise<void> {
  await using box = await open(url, { contention: false })
  const batch = 5_000
  for (let done = 0; done < count; done += batch) {
    const size = Math.min(batch, count - done)
    await box.jobs.addMany(
      Array.from({ length: size }, (_, index) => ({
        kind: `kind-${index % 7}`,
        queue: index % 10 === 0 ? 'past' : `queue-${index % 3}`,
        payload: { number: done + index, to: `user${done + index}@example.org`, text: 'a\tb\\c\n"d" 東京' },
        ...(index % 5 === 0 ? { uniqueKey: `key ${done + index}` } : {}),
        ...(index % 4 === 0 ? { tags: ['some', 'tags'], priority: index % 100 } : {}),
      })),
    )
    for (;;) {
      const claimed = await box.jobs.claim({ queues: ['past'], limit: 500, leaseMs: 60_000 })
      if (claimed.length === 0) break
      await Promise.all(
        claimed.map((job, at) => (at % 9 === 0 ? box.jobs.nack(job, { dead: true }) : box.jobs.ack(job))),
      )
    }
  }
}

interface Program {
  readonly child: ChildProcess
  readonly ended: Promise<number | null>
  output(): string
}

function start(from: string, to: string, { pageRows }: CopyKillingPlan): Program {
  const flags = ['--conditions=source', '--disable-warning=ExperimentalWarning']
  const args = ['copy', from, to, '--json', '--page-rows', String(pageRows)]
  const child = spawn(process.execPath, [...flags, main, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (output += String(part)))
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  return { child, ended, output: () => output }
}

/** Waits until the target has this many rows; a copy that ended before is an error. */
async function rowsReached(
  program: Program,
  to: string,
  wanted: number,
  isAnything: boolean,
): Promise<number> {
  await using target = await openCopyEnd(to)
  for (;;) {
    const unfinished = await target.unfinished()
    const rows = [...(unfinished?.tables.values() ?? [])].reduce((sum, { count }) => sum + count, 0)
    if (isAnything || (unfinished !== undefined && rows >= wanted)) return rows
    if (program.child.exitCode !== null) throw new Error(`the copy ended by itself: ${program.output()}`)
    await sleep(2)
  }
}

async function killNow({ child, ended }: Program): Promise<void> {
  child.kill('SIGKILL')
  await ended
}

/** What is half there cannot be opened as a store; before it was begun there is no schema. */
async function requireShut(to: string): Promise<void> {
  try {
    await using box = await open(to)
    await box.ping()
  } catch (error) {
    // Killed while the schema was made: on MariaDB, whose steps are not all or nothing, some of them are there.
    const refusals = ['copy_unfinished', 'schema_missing', 'schema_outdated'] as const
    if (refusals.some((code) => isSignalboxError(error, code))) return
    throw error
  }
  throw new Error('a target that is half filled could be opened')
}

async function end(program: Program): Promise<CopyReport> {
  if ((await program.ended) !== 0) throw new Error(`the last copy failed: ${program.output()}`)
  return JSON.parse(program.output().trim().split('\n').at(-1)!) as CopyReport
}

/** Over the job columns that are documented for plain SQL. */
async function ownProof(url: string): Promise<string> {
  await using caller = await connect(url)
  const hash = createHash('sha256')
  let count = 0
  for (const table of ['job_queue', 'job_history']) {
    const rows = await caller.exec(
      `SELECT namespace, id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts, run_at,
         created_at, started_at, backoff, error, meta FROM ${table} ORDER BY namespace, id`,
    )
    count += rows.length
    for (const row of rows)
      hash.update(JSON.stringify(Object.values(row).map((value) => (value === null ? null : String(value)))))
  }
  return `${count} jobs, sha256 ${hash.digest('hex')}`
}
