import type { Verdict } from '../../../jobs/index.ts'
import { decodeToken, type Token } from '../../token.ts'
import { sqlState } from '../connection/failures.ts'
import type { Sender } from '../connection/sender.ts'
import { finishValues } from './finish.ts'
import type { Space } from './namespace-memory.ts'
import { notWholeState, type Sealed, type SettledRow, verdictValues } from './settle.ts'

/**
 * Settles any number of verdicts in one or two statements: leases that end as a whole in the first, the others, and
 * those that turned out not to be whole, in the second.
 */
export class Settler {
  readonly #sender: Sender
  readonly #space: Space

  constructor(sender: Sender, space: Space) {
    this.#sender = sender
    this.#space = space
  }

  async settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
    const answers = verdicts.map(() => false)
    const rest: Numbered[] = []
    const finished: Promise<void>[] = []
    for (const group of groupByToken(verdicts)) {
      const token = decodeToken(group[0]!.verdict.token)
      if (token === undefined) continue
      const values = this.#finishValues(token, group)
      if (values === undefined) rest.push(...group)
      else finished.push(this.#finish(token, values, group, answers, rest))
    }
    await Promise.all(finished)
    if (rest.length > 0) await this.#settleRest(rest, answers)
    return answers
  }

  #finishValues(token: Token, group: readonly Numbered[]): unknown[] | undefined {
    const verdicts = group.map(({ verdict }) => verdict)
    return finishValues(this.#space.namespace, this.#space.leases, token, verdicts)
  }

  /** Ends a lease all of whose jobs completed; what turned out to be otherwise is added to the rest. */
  async #finish(
    token: Token,
    values: unknown[],
    group: readonly Numbered[],
    answers: boolean[],
    rest: Numbered[],
  ): Promise<void> {
    try {
      const { rowCount } = await this.#sender.attempt(this.#space.statements.finish, values)
      if (rowCount === 1) {
        this.#sender.onCommit(() => this.#space.leases.forget(token.leaseNo))
        for (const { nr } of group) answers[nr] = true
        return
      }
    } catch (error) {
      if (!isRefusal(error)) throw error
    }
    rest.push(...group)
  }

  async #settleRest(numbered: readonly Numbered[], answers: boolean[]): Promise<void> {
    // The first verdict on an attempt is the one that counts, as it would be one call after the other.
    const first = new Map<string, number>()
    const sealed: Sealed[] = []
    for (const { verdict, nr } of numbered) {
      const token = decodeToken(verdict.token)!
      const key = `${token.leaseNo} ${token.nonce} ${verdict.jobId}`
      if (first.has(key)) continue
      first.set(key, nr)
      sealed.push({ verdict, token })
    }
    const took = new Set<string>()
    let rest: readonly Sealed[] = sealed
    const whole = this.#wholeOnes(rest)
    if (whole.length > 0) {
      for (const key of await this.#settleWhole(whole)) took.add(key)
      rest = rest.filter(({ verdict, token }) => !took.has(keyOf(token.leaseNo, verdict.jobId)))
    }
    if (rest.length > 0) for (const key of await this.#settleSome(rest)) took.add(key)
    for (const { verdict, token } of sealed) {
      const nr = first.get(`${token.leaseNo} ${token.nonce} ${verdict.jobId}`)!
      answers[nr] = took.has(keyOf(token.leaseNo, verdict.jobId))
    }
  }

  /** The verdicts that are all their lease still needs. At most so many leases: each takes a lock. */
  #wholeOnes(sealed: readonly Sealed[]): readonly Sealed[] {
    const groups = Map.groupBy(sealed, ({ verdict }) => verdict.token)
    const whole = [...groups.values()].filter((group) =>
      this.#space.leases.isWhole(
        group[0]!.token,
        group.map(({ verdict }) => verdict.jobId),
      ),
    )
    return whole.slice(0, mostLeases).flat()
  }

  async #settleWhole(sealed: readonly Sealed[]): Promise<readonly string[]> {
    const { namespace, statements, leases } = this.#space
    const values = verdictValues(namespace, sealed)
    const sizes = new Map<string, number>()
    for (const { token } of sealed) sizes.set(token.leaseNo, (sizes.get(token.leaseNo) ?? 0) + 1)
    const counts = (values[1] as string[]).map((leaseNo) => sizes.get(leaseNo)!)
    try {
      const { rows } = await this.#sender.attempt<{ lease_no: string }>(statements.settle.whole, [
        ...values,
        counts,
      ])
      const gone = new Set(rows.map(({ lease_no: leaseNo }) => leaseNo))
      this.#sender.onCommit(() => {
        for (const leaseNo of gone) leases.forget(leaseNo)
      })
      return sealed
        .filter(({ token }) => gone.has(token.leaseNo))
        .map(({ verdict, token }) => keyOf(token.leaseNo, verdict.jobId))
    } catch (error) {
      if (isRefusal(error)) return []
      throw error
    }
  }

  async #settleSome(sealed: readonly Sealed[]): Promise<readonly string[]> {
    const { namespace, statements, leases } = this.#space
    const values = verdictValues(namespace, sealed)
    let rows: readonly SettledRow[]
    try {
      rows = (await this.#sender.attempt<SettledRow>(statements.settle.some, values)).rows
    } catch (error) {
      if (!isBlocked(error)) throw error
      // Another transaction is just ending this attempt and has not committed: it is not ours to end.
      if (sealed.length === 1) return []
      const answers: string[] = []
      for (const one of sealed) answers.push(...(await this.#settleSome([one])))
      return answers
    }
    this.#sender.onCommit(() => {
      for (const { lease_no: leaseNo, id } of rows) leases.ended(leaseNo, id)
    })
    return rows.map(({ lease_no: leaseNo, id }) => keyOf(leaseNo, id))
  }
}

const mostLeases = 500

/** A verdict and its place in the call. */
interface Numbered {
  readonly verdict: Verdict
  readonly nr: number
}

function groupByToken(verdicts: readonly Verdict[]): Iterable<readonly Numbered[]> {
  const groups = new Map<string, Numbered[]>()
  for (const [nr, verdict] of verdicts.entries()) {
    const group = groups.get(verdict.token)
    if (group) group.push({ verdict, nr })
    else groups.set(verdict.token, [{ verdict, nr }])
  }
  return groups.values()
}

function keyOf(leaseNo: string, jobId: string): string {
  return `${leaseNo} ${jobId}`
}

/** The hint was wrong, or two ended the same job at the same moment and history's key noticed. */
function isRefusal(error: unknown): boolean {
  return stateOf(error) === notWholeState || stateOf(error) === '23505' || isBlocked(error)
}

function isBlocked(error: unknown): boolean {
  return stateOf(error) === '55P03'
}

/** Of the error itself, or of what it was made from. */
function stateOf(error: unknown): string | undefined {
  return sqlState(error) ?? sqlState((error as { cause?: unknown }).cause)
}
