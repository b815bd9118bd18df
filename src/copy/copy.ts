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
import { makeQuiet, openEnds, requireEmptyTarget, requireFilled, requireQuiet } from './copy-ends.ts'
import { type CopyNews, type CopyOptions, Reach, resolveCopyOptions } from './copy-progress.ts'

/**
 * A copy writes rows in pages. One transaction of the target writes a page and the position. So a copy that was killed
 * continues behind the last committed page, and no row is written twice or left out. Until the copy has ended, no
 * process can open the target as a store.
 *
 *     look ─▶ quiet ─▶ begin ─▶ tables ─▶ numbers ─▶ proof of both ─▶ finish
 *                                  ▲                      │
 *                                  └── a table differs ───┘
 *
 * The proof reads both ends again, each at one moment. If a table differs, the source changed behind the copy: the copy
 * empties that table and copies it again.
 */
export interface CopyReport {
  readonly resumed: boolean
  readonly tables: readonly TableProof[]
  readonly rows: number
  /** Live and ended jobs. */
  readonly jobs: number
  /** Over all tables; the same on both sides. */
  readonly sha256: string
  /** Rows that this run wrote; fewer than `rows` if it continued an earlier run. */
  readonly written: number
  /** The time for writing, without waiting, checks and proofs. */
  readonly copyMs: number
  readonly verifyMs: number
}

/** How often a table that changed behind the copy is copied again. */
const maxRounds = 3

/** Copies everything from one database to another, which is empty or which an earlier run began to fill. */
export async function copy(from: string, to: string, options: CopyOptions = {}): Promise<CopyReport> {
  const { waitMs, pageRows, onNews } = resolveCopyOptions(options)
  await using kept = new AsyncDisposableStack()
  const ends = await openEnds(from, to, kept)
  await requireEmptyTarget(ends)
  const { source, target, sourceId, state } = ends
  await makeQuiet(from, source, { waitMs, onNews })
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
    const numbers = await copyTablesOf(source, target, { pageRows, onNews }, (rows) => {
      written += rows
    })
    await target.raise(numbers)
    const copiedAt = performance.now()
    copyMs += copiedAt - startedAt

    const proofs = await proveBoth(source, target, onNews)
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

/** Throws unless all new numbers of the target are above all numbers of the source. */
async function requireRaised(target: CopyEnd, { leaseNo, lockToken }: CopyNumbers): Promise<void> {
  await using look = await target.look()
  const found = await look.numbers()
  // Without jobs no number can repeat, because every job counts its own.
  const hasJobs = (await look.count(copyTables[0]!)) + (await look.count(copyTables[1]!)) > 0
  if ((found.leaseNo >= leaseNo || !hasJobs) && found.lockToken >= lockToken) return
  throw new SignalboxError(
    'copy_mismatch',
    `The target would give numbers of leases or locks again that the source gave: it is at ${found.leaseNo} and ${found.lockToken}, the source at ${leaseNo} and ${lockToken}. Nothing has been opened; run the same copy again.`,
    { details: { tables: [] } },
  )
}

/** Returns the tables that differ, and the tables that depend on them. */
function copiedAnew(differing: ReadonlyMap<string, unknown>): readonly CopyTable[] {
  return copyTables.filter(
    ({ name }) =>
      differing.has(name) ||
      copyGroups.some((group) => group.includes(name) && group.some((other) => differing.has(other))),
  )
}

/** Compares two databases and changes neither. Throws `copy_mismatch` if they differ. */
export async function compare(from: string, to: string, options: CopyOptions = {}): Promise<CopyReport> {
  const { onNews } = resolveCopyOptions(options)
  await using kept = new AsyncDisposableStack()
  const ends = await openEnds(from, to, kept)
  await requireFilled(ends, to)
  const { source, target } = ends
  const startedAt = performance.now()
  const proofs = await proveBoth(source, target, onNews)
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
  { pageRows, onNews }: { readonly pageRows: number; readonly onNews: (news: CopyNews) => void },
  onWritten: (rows: number) => void,
): Promise<CopyNumbers> {
  await using look = await source.look()
  const numbers = await look.numbers()
  const unfinished = (await target.unfinished())!
  let total = 0
  for (const table of copyTables) total += await look.count(table)
  const rows = [...unfinished.tables.values()].reduce((sum, { count }) => sum + count, 0)
  const reach = new Reach('copying', { total, rows, onNews })
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
  // Read the next page while the target writes the previous one.
  let writing: Promise<void> = Promise.resolve()
  for await (const page of look.read(table, position, pageRows)) {
    await writing
    const countBefore = count
    position = key(page.at(-1)!)
    count += page.length
    writing = target
      .write(table, page, { position, count, countBefore, isDone: false, numbers })
      .catch((error) => Promise.reject(refusedRows(table, error)))
    // The loop awaits this write after the next page. Until then its failure would count as unhandled.
    writing.catch(() => undefined)
    onPage(page.length)
  }
  await writing
  await target.write(table, [], { position, count, countBefore: count, isDone: true, numbers })
}

/** Adds the table to the error of a database that refused rows. */
function refusedRows({ name }: CopyTable, error: unknown): unknown {
  if (isSignalboxError(error) || !(error instanceof Error)) return error
  return new SignalboxError(
    'store_unavailable',
    `The target refused rows of ${name}: ${error.message}. Earlier rows stay, and the same copy continues from there.`,
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
  onNews: (news: CopyNews) => void,
): Promise<readonly BothProofs[]> {
  await using ours = await source.look()
  await using theirs = await target.look()
  let total = 0
  for (const table of copyTables) total += (await ours.count(table)) + (await theirs.count(table))
  const reach = new Reach('verifying', { total, rows: 0, onNews })
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
    `Source and target differ in ${said.join(', ')}. The likely cause: one of them was used after the copy.`,
    { details: { tables: differing.map(({ source }) => source.table) } },
  )
}

/** The proof of a table's content. Equal proofs mean equal rows, on all engines. */
export interface TableProof {
  readonly table: string
  readonly rows: number
  /** SHA-256 over the rows in the order of their keys, in hexadecimal. */
  readonly sha256: string
}

/** Reads a complete table. Each row is one line of JSON, so rows and columns cannot be confused. */
async function proveTable(
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
function proveAll(proofs: readonly TableProof[]): string {
  const hash = createHash('sha256')
  for (const { table, rows, sha256 } of proofs) hash.update(`${table} ${rows} ${sha256}\n`)
  return hash.digest('hex')
}
