import { setTimeout as sleep } from 'node:timers/promises'
import { SignalboxError } from '../../../core/errors.ts'
import type { Added, NewJob } from '../../../jobs/index.ts'
import type { Reclaimer } from '../claim/reclaim.ts'
import { inCallers, wrongDatabase } from '../connection/caller-transaction.ts'
import type { Runner, Statement } from '../connection/connection.ts'
import { inOnePacket } from '../connection/driver.ts'
import { sqlState } from '../connection/failures.ts'
import type { Sender } from '../connection/sender.ts'
import type { Ride } from '../notifier.ts'
import {
  type AddRow,
  addValues,
  dependencyValues,
  isBlocked,
  type PlainAdd,
  plainAdd,
  readAdded,
  waitingValues,
} from './add.ts'
import type { Space } from './namespace-memory.ts'

/** Whether jobs are added by one statement that is sent at once: none has a unique key or waits for something. */
export function isOneStatement(jobs: readonly NewJob[]): boolean {
  return jobs.every((job) => job.uniqueKey === null && !isBlocked(job))
}

/**
 * Runs adds: one statement, with unique keys as many as it takes to tell who has each, and one more for what jobs wait
 * for.
 */
export class Adder {
  readonly #sender: Sender
  readonly #space: Space
  readonly #reclaimer: Reclaimer

  constructor(sender: Sender, space: Space, reclaimer: Reclaimer) {
    this.#sender = sender
    this.#space = space
    this.#reclaimer = reclaimer
  }

  async add(jobs: readonly NewJob[], wakeUps: readonly string[]): Promise<readonly Added[]> {
    return isOneStatement(jobs) ? this.#addPlain(jobs, wakeUps) : this.#addUnique(jobs)
  }

  async #addPlain(jobs: readonly NewJob[], wakeUps: readonly string[]): Promise<readonly Added[]> {
    const { namespace, statements, notifier } = this.#space
    const add = plainAdd(statements.add, namespace, jobs)
    // In a transaction it would be woken before there is anything to find.
    const ride =
      wakeUps.length === 1 && !this.#sender.isOneTransaction ? notifier.ride(wakeUps[0]!) : undefined
    if (ride === undefined) await this.#sender.run(add.statement, add.values)
    else if (ride.isRare) await this.#runWaking(add, ride)
    else await this.#runAndWake(add, ride)
    return jobs.map(({ id }) => ({ id, duplicate: false }))
  }

  /**
   * The wake-up is part of what is written: it is heard as soon as that can be seen. Transactions that send a wake-up commit one after
   * the other in the whole database, so only a wake-up that is rare goes this way. A wake-up may be lost and a job may not: where
   * the database takes no wake-up, the job is added without.
   */
  async #runWaking({ statement, waking, values }: PlainAdd, ride: Ride): Promise<void> {
    let isSent = false
    try {
      await this.#sender.use(async (client) => {
        try {
          await this.#sender.send(client, waking, [...values, ...ride.values])
          isSent = true
        } catch (error) {
          if (!wakeRefusals.has(sqlState(error) ?? '')) throw error
          await this.#sender.send(client, statement, values)
        }
      })
    } finally {
      ride.over(isSent)
    }
  }

  /** Both go out in one packet, as two transactions; whoever adds does not wait for the wake-up. */
  #runAndWake({ statement, values }: PlainAdd, ride: Ride): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const both = this.#sender.use(async (client) => {
      const [written, woken] = inOnePacket(client, () => [
        this.#sender.send(client, statement, values),
        this.#sender.send(client, ride.statement, ride.values),
      ])
      // A wake-up may be lost: whoever depends on it polls.
      woken!.catch(() => undefined)
      await written
      ride.over(true)
      resolve()
      await woken!.catch(() => undefined)
    })
    both.catch((error) => {
      ride.over(false)
      reject(error)
    })
    return promise
  }

  async #addUnique(jobs: readonly NewJob[]): Promise<readonly Added[]> {
    for (let tries = 0; tries < 20; tries++) {
      // Several jobs are all written or none, so what cannot be answered yet is taken back and begun anew.
      const { answers, lapsed } = await this.#sender.allOrNothing(
        (client) => this.#tryUnique(client, jobs, tries === 0),
        ({ answers }) => answers !== undefined,
      )
      if (answers) return answers
      if (lapsed) await this.#reclaimer.reclaim(100_000)
      else await sleep(Math.min(2 ** tries, 50))
    }
    throw handsChanged()
  }

  async #tryUnique(
    client: Runner,
    jobs: readonly NewJob[],
    isFirst: boolean,
  ): Promise<{ readonly answers: readonly Added[] | undefined; readonly lapsed: boolean }> {
    const { namespace, statements } = this.#space
    const { statement, values } = this.#adding(jobs, null)
    const { rows } = await this.#sender.send<AddRow & Record<string, unknown>>(client, statement, values)
    const answers = readAdded(jobs, rows)
    // A holder whose lease ran out may be dead, which frees its key.
    const lapsed = isFirst && rows[0]!.lapsed && answers.some((answer) => answer?.duplicate)
    const isWhole = !lapsed && answers.every((answer) => answer !== undefined)
    if (!isWhole) return { answers: undefined, lapsed }
    const dependencies = dependencyValues(namespace, jobs, answers as readonly Added[])
    if (dependencies) await this.#sender.send(client, statements.add.dependencies, dependencies)
    return { answers: answers as readonly Added[], lapsed }
  }

  #adding(jobs: readonly NewJob[], storeId: string | null): { statement: Statement; values: unknown[] } {
    const { namespace, statements } = this.#space
    const values = addValues(namespace, jobs, storeId)
    if (!jobs.some(isBlocked)) return { statement: statements.add.unique, values }
    return { statement: statements.add.blocked, values: [...values, waitingValues(jobs)] }
  }

  /** In the caller's transaction what was written stays; only those without an answer are asked for again. */
  async addIn(client: Runner, jobs: readonly NewJob[]): Promise<readonly Added[]> {
    const { storeId } = this.#space
    const answers: (Added | undefined)[] = jobs.map(() => undefined)
    for (let tries = 0; tries < 20; tries++) {
      const open = jobs.flatMap((job, nr) => (answers[nr] === undefined ? [{ job, nr }] : []))
      if (open.length === 0) return this.#addDependenciesIn(client, jobs, answers as readonly Added[])
      const some = open.map(({ job }) => job)
      const rows = await inCallers(async () => {
        const { statement, values } = this.#adding(some, storeId)
        return (await client.query<AddRow & Record<string, unknown>>(statement.text, values)).rows
      })
      if (rows.length === 0) throw wrongDatabase()
      const doubt = tries === 0 && rows[0]!.lapsed
      for (const [at, answer] of readAdded(some, rows).entries()) {
        if (answer && !(doubt && answer.duplicate)) answers[open[at]!.nr] = answer
      }
      if (doubt) await this.#reclaimer.reclaim(100_000)
      else if (tries > 0) await sleep(Math.min(2 ** tries, 50))
    }
    throw handsChanged()
  }

  async #addDependenciesIn(
    client: Runner,
    jobs: readonly NewJob[],
    answers: readonly Added[],
  ): Promise<readonly Added[]> {
    const { namespace, statements } = this.#space
    const dependencies = dependencyValues(namespace, jobs, answers)
    if (dependencies) await inCallers(() => client.query(statements.add.dependencies.text, dependencies))
    return answers
  }
}

/** Its queue of wake-ups is full (somebody listens and does not read), others' wake-ups kept it waiting, or it may not notify. */
const wakeRefusals = new Set(['54000', '55P03', '42501'])

function handsChanged(): SignalboxError {
  return new SignalboxError(
    'store_busy',
    'A unique key changed hands again and again while a job was being added. Try again.',
  )
}
