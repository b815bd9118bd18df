/** One engine, and guards on it for the tests: in real time, with spans that are over soon or never. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type {
  GuardAsk,
  GuardEnd,
  GuardRecord,
  GuardStanding,
  GuardStore,
} from '../../../src/once/guard-store.ts'
import { until } from '../locks/stage.ts'
import type { GuardsStores } from './opening.ts'

export { until }

/** Longer than any test. */
export const longMs = 600_000
/** A span that expires during a test; used only in tests of expiry. */
export const shortMs = 60

type Running = Extract<GuardStanding, { readonly status: 'run' }>

export class GuardStage {
  readonly store: GuardStore
  #probes = 0

  constructor({ guards }: GuardsStores) {
    this.store = guards
  }

  async claim(key: string, options: Partial<GuardAsk> = {}, tx?: unknown): Promise<GuardStanding> {
    const [standing, ...rest] = await this.store.claim([ask(key, options)], tx)
    assert.ok(standing && rest.length === 0, 'one answer to one ask')
    return standing
  }

  /** Claims the key and gets the run. */
  async run(key: string, options?: Partial<GuardAsk>, tx?: unknown): Promise<Running> {
    const standing = await this.claim(key, options, tx)
    assert.equal(standing.status, 'run', `${JSON.stringify(key)} is to be run`)
    return standing as Running
  }

  async status(key: string, options?: Partial<GuardAsk>): Promise<GuardStanding['status']> {
    return (await this.claim(key, options)).status
  }

  async settle(
    key: string,
    token: string,
    end: GuardEnd['end'],
    { result = null, space = 'once', tx }: { result?: string | null; space?: string; tx?: unknown } = {},
  ): Promise<boolean> {
    const [took, ...rest] = await this.store.settle([{ space, key, token, end, result }], tx)
    assert.ok(took !== undefined && rest.length === 0, 'one answer to one end')
    return took
  }

  async seen(window: string, { value = '', windowMs = longMs, tx }: SeenOptions = {}): Promise<boolean> {
    const [seen] = await this.store.seen(
      [{ window: digest(window), value: value && digest(value), windowMs }],
      tx,
    )
    assert.ok(seen !== undefined)
    return seen
  }

  /** All guards of a space, page by page, sorted here because not every engine has an order. */
  async all(space = 'once', search?: string, pageSize = 100): Promise<readonly GuardRecord[]> {
    const items: GuardRecord[] = []
    let cursor: string | null | undefined
    do {
      const page = await this.store.list({
        space,
        limit: pageSize,
        ...(search !== undefined && { search }),
        ...(cursor != null && { cursor }),
      })
      items.push(...page.items)
      cursor = page.cursor
      if (cursor !== null) assert.match(cursor, /^[\w-]+$/)
    } while (cursor !== null)
    return items.toSorted((a, b) => (a.key < b.key ? -1 : 1))
  }

  async look(key: string, space?: string): Promise<GuardRecord | undefined> {
    return (await this.all(space)).find((guard) => guard.key === key)
  }

  /** Waits until the store's clock has moved by this much: an earlier lease has expired by then. */
  async pass(ms: number): Promise<void> {
    const key = `probe ${this.#probes++}`
    const options = { space: 'probe', leaseMs: ms, keepMs: longMs }
    const { token } = await this.run(key, options)
    await until(`the store's clock moves by ${ms} ms`, async () => {
      const standing = await this.claim(key, options)
      if (standing.status !== 'run') return false
      await this.settle(key, standing.token, 'released', { space: 'probe' })
      return standing.token !== token
    })
  }

  /** Deletes all expired guards. Returns their number. */
  async pruneAll(limit = 100): Promise<number> {
    let total = 0
    for (;;) {
      const pruned = await this.store.prune(limit)
      assert.ok(pruned >= 0 && pruned <= limit, `${pruned} are at most ${limit}`)
      if (pruned === 0) return total
      total += pruned
    }
  }
}

interface SeenOptions {
  readonly value?: string
  readonly windowMs?: number
  readonly tx?: unknown
}

export function ask(key: string, options: Partial<GuardAsk> = {}): GuardAsk {
  return {
    space: 'once',
    key,
    leaseMs: longMs,
    keepMs: longMs,
    mode: 'at-least-once',
    fingerprint: null,
    ...options,
  }
}

export function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** The number in a token, which rises. */
export function numberOf({ token }: Running): bigint {
  const [, number] = /^(\d{1,18})\.[0-9a-f]{16}$/.exec(token) ?? []
  assert.ok(number !== undefined, `${token} is a number and a nonce`)
  return BigInt(number)
}
