import { createHash } from 'node:crypto'
import { isSignalboxError, SignalboxError } from '../core/errors.ts'
import {
  type CopyEnd,
  type CopyNumbers,
  type CopySnapshot,
  type CopyTable,
  copyGroups,
  copyTables,
  keyOf,
  openMigrator,
  type UnfinishedCopy,
} from '../storage/index.ts'
import { openEnds, requireFilled, requireRoom } from './copy-ends.ts'
import { type CopyNews, type CopyOptions, Reach, resolveCopyOptions } from './copy-progress.ts'
import { makeQuiet, requireQuiet } from './require-quiet.ts'

/**
 * A copy is rows in pages, each written with how far that is in one transaction of the target: killed at any moment, it
 * goes on behind the last page that was committed, so nothing is written twice and nothing is left out. Until it has
 * ended, no process can open the target as a store.
 *
 *     look ─▶ quiet ─▶ begin ─▶ tables ─▶ numbers ─▶ proof of both ─▶ finish
 *                                  ▲                      │
 *                                  └── a table differs ───┘
 *
 * The proof reads both ends once more, each at one moment. A table in which they differ was changed in the source behind
 * the copy: it is taken out and copied anew.
 */
export interface CopyReport {
  readonly resumed: boolean
  readonly tables: readonly TableProof[]
  readonly rows: number
  /** Those that live and those that ended. */
  readonly jobs: number
  /** Over all tables; the same on both sides. */
  readonly sha256: string
  /** Rows that this run wrote; fewer than `rows` when it went on with an earlier one. */
  readonly written: number
  /** What writing them took, without waiting, looking and proving. */
  readonly copyMs: number
  readonly verifyMs: number
}

/** How often a table that changed behind the copy is copied anew. */
const maxRounds = 3

/** Copies everything from one database to another that is empty, or that an earlier run began to fill. */
export async function copy(from: string, to: string, options: CopyOptions = {}): Promise<CopyReport> {
  const { waitMs, pageRows, onNews: tell } = resolveCopyOptions(options)
  await using kept = new AsyncDisposableStack()
  const ends = await openEnds(from, to, kept)
  await requireRoom(ends)
  const { source, target, sourceId, state } = ends
  await makeQuiet(from, source, { waitMs, tell })
  if (state === 'empty') {
    await using migrator = await openMigrator(to)
    await migrator.up()
    await target.begin(sourceId)
  }

  let written = 0
  let copyMs = 0
  let verifyMs = 0
  let before: ReadonlyMap<string, TableProof> = new Map()
  for (let round = 1; ; round++) {
    const startedAt = performance.now()
    const numbers = await copyTablesOf(source, target, { pageRows, tell }, (rows) => {
      written += rows
    })
    await target.raise(numbers)
    const copiedAt = performance.now()
    copyMs += copiedAt - startedAt

    const proofs = await proveBoth(source, target, tell)
    verifyMs += performance.now() - copiedAt
    const differing = proofs.filter(({ source: ours, target: theirs }) => ours.sha256 !== theirs.sha256)
    if (differing.length === 0) {
      await requireRaised(target, numbers)
      await requireQuiet(source)
      await target.finish(sourceId)
      return { ...reportOf(proofs), resumed: state === 'begun', written, copyMs, verifyMs }
    }
    const still = differing.find(({ source: ours }) => before.get(ours.table)?.sha256 === ours.sha256)
    if (still !== undefined) throw mismatch(differing)
    if (round === maxRounds)
      throw new SignalboxError(
        'copy_source_changed',
        `The source kept changing while it was copied: ${differing.map(({ source: { table } }) => table).join(', ')}. Stop its servers and workers, then copy again: the copy repeats only these tables.`,
        { details: { tables: differing.map(({ source: { table } }) => table) } },
      )
    before = new Map(differing.map(({ source: ours }) => [ours.table, ours]))
    for (const table of copiedAnew(before)) await target.clear(table)
  }
}

/** Throws unless every number that the target gives will be above all that the source gave. */
async function requireRaised(target: CopyEnd, { leaseNo, lockToken }: CopyNumbers): Promise<void> {
  await using look = await target.look()
  const found = await look.numbers()
  // Without jobs there is nothing to confuse, because every job has its own number.
  const hasJobs = (await look.count(copyTables[0]!)) + (await look.count(copyTables[1]!)) > 0
  if ((found.leaseNo >= leaseNo || !hasJobs) && found.lockToken >= lockToken) return
  throw new SignalboxError(
    'copy_mismatch',
    `The target would give numbers of leases or locks again that the source gave: it is at ${found.leaseNo} and ${found.lockToken}, the source at ${leaseNo} and ${lockToken}. Nothing has been opened; run the same copy again.`,
    { details: { tables: [] } },
  )
}

/** Those that differ, with those that lean on them. */
function copiedAnew(differing: ReadonlyMap<string, unknown>): readonly CopyTable[] {
  return copyTables.filter(
    ({ name }) =>
      differing.has(name) ||
      copyGroups.some((group) => group.includes(name) && group.some((other) => differing.has(other))),
  )
}

/** Compares two databases, and changes neither. Throws `copy_mismatch` where they differ. */
export async function compare(from: string, to: string, options: CopyOptions = {}): Promise<CopyReport> {
  const { onNews: tell } = resolveCopyOptions(options)
  await using kept = new AsyncDisposableStack()
  const ends = await openEnds(from, to, kept)
  await requireFilled(ends, to)
  const { source, target } = ends
  const startedAt = performance.now()
  const proofs = await proveBoth(source, target, tell)
  const differing = proofs.filter(({ source: ours, target: theirs }) => ours.sha256 !== theirs.sha256)
  if (differing.length > 0) throw mismatch(differing)
  return {
    ...reportOf(proofs),
    resumed: false,
    written: 0,
    copyMs: 0,
    verifyMs: performance.now() - startedAt,
  }
}

/** Copies the rows that the target does not have yet. Returns the numbers that must continue to rise. */
async function copyTablesOf(
  source: CopyEnd,
  target: CopyEnd,
  { pageRows, tell }: { readonly pageRows: number; readonly tell: (news: CopyNews) => void },
  onWritten: (rows: number) => void,
): Promise<CopyNumbers> {
  await using look = await source.look()
  const numbers = await look.numbers()
  const unfinished = (await target.unfinished())!
  let total = 0
  for (const table of copyTables) total += await look.count(table)
  const rows = [...unfinished.tables.values()].reduce((sum, { count }) => sum + count, 0)
  const reach = new Reach('copying', { total, rows, tell })
  for (const table of copyTables) {
    await copyTable(look, target, table, { unfinished, numbers, pageRows }, (count) => {
      reach.add(table.name, count)
      onWritten(count)
    })
  }
  return numbers
}

async function copyTable(
  look: CopySnapshot,
  target: CopyEnd,
  table: CopyTable,
  {
    unfinished,
    numbers,
    pageRows,
  }: { readonly unfinished: UnfinishedCopy; readonly numbers: CopyNumbers; readonly pageRows: number },
  onPage: (rows: number) => void,
): Promise<void> {
  let { position, count, isDone } = unfinished.tables.get(table.name)!
  if (isDone) return
  const key = keyOf(table)
  // The next page is read while the target writes the last one.
  let writing: Promise<void> = Promise.resolve()
  for await (const page of look.read(table, position, pageRows)) {
    await writing
    const countBefore = count
    position = key(page.at(-1)!)
    count += page.length
    writing = target
      .write(table, page, { position, count, countBefore, isDone: false, numbers })
      .catch((error) => Promise.reject(refusedRows(table, error)))
    // It is awaited after the next page. Until then its failure counts as unhandled.
    writing.catch(() => undefined)
    onPage(page.length)
  }
  await writing
  await target.write(table, [], { position, count, countBefore: count, isDone: true, numbers })
}

/** What a database says of rows that it does not take, with the table they are of. */
function refusedRows({ name }: CopyTable, error: unknown): unknown {
  if (isSignalboxError(error) || !(error instanceof Error)) return error
  return new SignalboxError(
    'store_unavailable',
    `The target refused rows of ${name}: ${error.message}. What was written before them stays, and the same copy goes on from there.`,
    { cause: error, details: { table: name } },
  )
}

interface BothProofs {
  readonly source: TableProof
  readonly target: TableProof
}

async function proveBoth(
  source: CopyEnd,
  target: CopyEnd,
  tell: (news: CopyNews) => void,
): Promise<readonly BothProofs[]> {
  await using ours = await source.look()
  await using theirs = await target.look()
  let total = 0
  for (const table of copyTables) total += (await ours.count(table)) + (await theirs.count(table))
  const reach = new Reach('verifying', { total, rows: 0, tell })
  const proofs: BothProofs[] = []
  for (const table of copyTables) {
    const onPage = (rows: number) => reach.add(table.name, rows)
    const [one, other] = await Promise.all([
      proveTable(ours, table, onPage),
      proveTable(theirs, table, onPage),
    ])
    proofs.push({ source: one, target: other })
  }
  return proofs
}

function reportOf(proofs: readonly BothProofs[]): Pick<CopyReport, 'tables' | 'rows' | 'jobs' | 'sha256'> {
  const tables = proofs.map(({ source }) => source)
  const count = (some: readonly TableProof[]) => some.reduce((sum, { rows }) => sum + rows, 0)
  return {
    tables,
    rows: count(tables),
    jobs: count(tables.filter(({ table }) => table === 'job_queue' || table === 'job_history')),
    sha256: proveAll(tables),
  }
}

function mismatch(differing: readonly BothProofs[]): SignalboxError {
  const said = differing.map(({ source, target }) =>
    source.rows === target.rows
      ? `${source.table} (${source.rows} rows each)`
      : `${source.table} (${source.rows} rows in the source, ${target.rows} in the target)`,
  )
  return new SignalboxError(
    'copy_mismatch',
    `Source and target differ in ${said.join(', ')}. If either has been worked in since the copy, that is why.`,
    { details: { tables: differing.map(({ source }) => source.table) } },
  )
}

/** What is known of a table's content: equal proofs mean equal rows, whatever the engines. */
export interface TableProof {
  readonly table: string
  readonly rows: number
  /** SHA-256 over the rows in the order of their keys, in hexadecimal. */
  readonly sha256: string
}

/** Reads a table whole. Each row is one line of JSON, so no two rows or columns can be taken for others. */
export async function proveTable(
  look: CopySnapshot,
  table: CopyTable,
  onPage: (rows: number) => void,
): Promise<TableProof> {
  const hash = createHash('sha256')
  const compared = table.columns.flatMap(({ isCompared }, index) => (isCompared ? [index] : []))
  const isWhole = compared.length === table.columns.length
  let rows = 0
  for await (const page of look.read(table, null, 5_000)) {
    let text = ''
    for (const row of page) text += `${JSON.stringify(isWhole ? row : compared.map((index) => row[index]))}\n`
    hash.update(text)
    rows += page.length
    onPage(page.length)
  }
  return { table: table.name, rows, sha256: hash.digest('hex') }
}

/** One hash for all tables. */
export function proveAll(proofs: readonly TableProof[]): string {
  const hash = createHash('sha256')
  for (const { table, rows, sha256 } of proofs) hash.update(`${table} ${rows} ${sha256}\n`)
  return hash.digest('hex')
}
