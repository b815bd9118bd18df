import { setTimeout as sleep } from 'node:timers/promises'
import type { PoolClient } from 'pg'
import { SignalboxError } from '../../../core/errors.ts'
import type { Added, NewJob } from '../../../jobs/index.ts'
import { insertDependencies } from '../../sql/dependencies/new-dependencies.ts'
import { run } from '../../sql/procedure.ts'
import { inCallers, wrongDatabase } from '../connection/caller-transaction.ts'
import { sqlState } from '../connection/failures.ts'
import { inOnePacket } from '../connection/pipeline.ts'
import type { Sender } from '../connection/sender.ts'
import type { Runner } from '../connection/statement.ts'
import type { CarriedWakeUp } from '../notifier.ts'
import {
  type AddRow,
  addStatements,
  isOneStatement,
  type PlainAdd,
  plainAdd,
  readAdded,
  uniqueAdd,
} from './add.ts'
import { reclaimThese } from './reclaim.ts'
import type { Scope } from './space.ts'

/** Adds jobs, all or none. With one topic in `wakeUps`, the wake-up goes out with the write. */
export function add(
  scope: Scope,
  jobs: readonly NewJob[],
  wakeUps: readonly string[],
): Promise<readonly Added[]> {
  return isOneStatement(jobs) ? addPlain(scope, jobs, wakeUps) : addUnique(scope, jobs)
}

async function addPlain(
  { sender, namespace, schemaName, notifier }: Scope,
  jobs: readonly NewJob[],
  wakeUps: readonly string[],
): Promise<readonly Added[]> {
  const plain = plainAdd(addStatements(schemaName), namespace, jobs)
  // Inside a transaction the wake-up would come before the commit, when workers find no job yet.
  const wakeUp =
    wakeUps.length === 1 && !sender.isOneTransaction ? notifier.carryWakeUp(wakeUps[0]!) : undefined
  if (wakeUp === undefined) await sender.run(plain.statement, plain.values)
  else if (wakeUp.mayJoinWrite) await runWaking(sender, plain, wakeUp)
  else await runAndWake(sender, plain, wakeUp)
  return jobs.map(({ id }) => ({ id, duplicate: false }))
}

/**
 * Sends the wake-up inside the transaction that adds the jobs, so listeners get it exactly at the commit. Postgres
 * commits transactions with NOTIFY one after the other in the whole database, so only rare wake-ups go this way. Losing
 * a wake-up is allowed, losing a job is not: if the database refuses the wake-up, the job is added without it.
 */
async function runWaking(
  sender: Sender,
  { statement, waking, values }: PlainAdd,
  wakeUp: CarriedWakeUp,
): Promise<void> {
  let isSent = false
  try {
    await sender.use(async (client) => {
      try {
        await sender.send(client, waking, [...values, ...wakeUp.values])
        isSent = true
      } catch (error) {
        if (!wakeRefusals.has(sqlState(error) ?? '')) throw error
        await sender.send(client, statement, values)
      }
    })
  } finally {
    wakeUp.ended(isSent)
  }
}

/** Both go out in one packet, as two transactions. The caller does not wait for the wake-up. */
function runAndWake(sender: Sender, { statement, values }: PlainAdd, wakeUp: CarriedWakeUp): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const both = sender.use(async (client) => {
    const [written, woken] = inOnePacket(client, () => [
      sender.send(client, statement, values),
      sender.send(client, wakeUp.statement, wakeUp.values),
    ])
    // A lost wake-up is harmless: listeners poll as well.
    woken!.catch(() => undefined)
    await written
    wakeUp.ended(true)
    resolve()
    await woken!.catch(() => undefined)
  })
  both.catch((error) => {
    wakeUp.ended(false)
    reject(error)
  })
  return promise
}

async function addUnique(scope: Scope, jobs: readonly NewJob[]): Promise<readonly Added[]> {
  for (let tries = 0; tries < 20; tries++) {
    // All jobs are written or none, so an add without all its answers is rolled back and repeated.
    const { answers, lapsed } = await scope.sender.allOrNothing(
      (client) => tryUnique(scope, client, jobs, tries === 0),
      ({ answers }) => answers !== undefined,
    )
    if (answers) return answers
    if (lapsed.length > 0) await reclaimThese(scope, lapsed)
    else await sleep(Math.min(2 ** tries, 50))
  }
  throw keyChangedHands()
}

interface UniqueAttempt {
  /** Undefined: nothing may be kept, and the add is tried again. */
  readonly answers: readonly Added[] | undefined
  readonly lapsed: readonly string[]
}

async function tryUnique(
  { sender, namespace, schemaName, database }: Scope,
  client: PoolClient,
  jobs: readonly NewJob[],
  isFirst: boolean,
): Promise<UniqueAttempt> {
  const statements = addStatements(schemaName)
  const { statement, values } = uniqueAdd(statements, namespace, jobs, null)
  const { rows } = await sender.send<AddRow & Record<string, unknown>>(client, statement, values)
  const answers = readAdded(jobs, rows)
  // A holder whose lease expired may be dead. Reclaiming it frees its key.
  const lapsed = isFirst ? lapsedOf(rows) : []
  const isWhole = lapsed.length === 0 && answers.every((answer) => answer !== undefined)
  if (!isWhole) return { answers: undefined, lapsed }
  const dependencies = insertDependencies(namespace, jobs, answers as readonly Added[])
  await database.runWithin(client, run(...dependencies))
  return { answers: answers as readonly Added[], lapsed }
}

/** Adds in the caller's transaction. Written jobs stay, and only jobs without an answer are tried again. */
export async function addIn(
  scope: Scope,
  client: Runner,
  jobs: readonly NewJob[],
): Promise<readonly Added[]> {
  const { storeId, namespace, schemaName } = scope
  const statements = addStatements(schemaName)
  const answers: (Added | undefined)[] = jobs.map(() => undefined)
  for (let tries = 0; tries < 20; tries++) {
    const open = jobs.flatMap((job, nr) => (answers[nr] === undefined ? [{ job, nr }] : []))
    if (open.length === 0) {
      const dependencies = insertDependencies(namespace, jobs, answers as readonly Added[])
      await inCallers(() => scope.database.runOnCallers(client, run(...dependencies)))
      return answers as readonly Added[]
    }
    const some = open.map(({ job }) => job)
    const rows = await inCallers(async () => {
      const { statement, values } = uniqueAdd(statements, namespace, some, storeId)
      return (await client.query<AddRow & Record<string, unknown>>(statement.text, values)).rows
    })
    if (rows.length === 0) throw wrongDatabase()
    const lapsed = tries === 0 ? lapsedOf(rows) : []
    for (const [at, answer] of readAdded(some, rows).entries()) {
      if (answer && !lapsed.includes(answer.id)) answers[open[at]!.nr] = answer
    }
    if (lapsed.length > 0) await reclaimThese(scope, lapsed)
    else if (tries > 0) await sleep(Math.min(2 ** tries, 50))
  }
  throw keyChangedHands()
}

/** The database refused the wake-up: its queue is full, other wake-ups blocked it, or the user may not NOTIFY. */
const wakeRefusals = new Set(['54000', '55P03', '42501'])

/** The holders of unique keys whose lease expired. */
function lapsedOf(rows: readonly AddRow[]): readonly string[] {
  return [...new Set(rows.filter(({ lapsed }) => lapsed).map(({ holder }) => holder!))].sort()
}

function keyChangedHands(): SignalboxError {
  return new SignalboxError(
    'store_busy',
    'A unique key kept changing hands while a job was being added. Try again.',
  )
}
