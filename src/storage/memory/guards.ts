import type {
  GuardAsk,
  GuardEnd,
  GuardQuery,
  GuardRecord,
  GuardRef,
  GuardStanding,
  GuardStore,
  WindowAsk,
} from '../../once/guard-store.ts'
import { compareBytes } from '../compare-bytes.ts'
import { createNonce, encodeToken } from '../token.ts'
import { unsupported } from './transaction.ts'

interface Row {
  readonly space: string
  readonly key: string
  readonly status: 'running' | 'done' | 'failed'
  readonly mode: GuardAsk['mode']
  readonly attempt: number
  readonly token: string
  readonly fingerprint: string | null
  readonly result: string | null
  readonly claimedAt: number
  readonly keepMs: number
  /** While the guard runs, the end of its lease; else the time at which it is forgotten. */
  readonly endsAt: number
}

/** A row with its status at this moment. */
type Present = Row & { readonly standing: GuardRecord['status'] }

/**
 * Guards in memory: the model for the other engines. Each call computes the present status of a row from its stored
 * status and the clock. Each call is synchronous, which makes it atomic.
 */
export class MemoryGuards implements GuardStore {
  readonly #now: () => number
  readonly #rows = new Map<string, Row>()
  readonly #windows = new Map<string, { readonly value: string; readonly endsAt: number }>()
  #lastNo = 0

  constructor(now: () => number) {
    this.#now = now
  }

  async claim(asks: readonly GuardAsk[], tx?: unknown): Promise<readonly GuardStanding[]> {
    if (tx !== undefined) throw unsupported()
    return asks.map((ask) => this.#claimOne(ask))
  }

  #claimOne(ask: GuardAsk): GuardStanding {
    const now = this.#now()
    const row = this.#present(ask)
    if (row && row.standing !== 'failed') {
      if (row.fingerprint !== ask.fingerprint) return { status: 'mismatch' }
      if (row.standing === 'running') return { status: 'running', leaseEndsInMs: row.endsAt - now }
      return row.standing === 'done' ? { status: 'done', result: row.result } : { status: 'stuck' }
    }
    const { space, key, mode, fingerprint, keepMs } = ask
    const [token, attempt] = [this.#mintToken(now), (row?.attempt ?? 0) + 1]
    this.#put({
      ...{ space, key, mode, fingerprint, keepMs, token, attempt },
      status: 'running',
      result: null,
      claimedAt: now,
      endsAt: now + ask.leaseMs,
    })
    return { status: 'run', token, attempt }
  }

  /** Does nothing: memory takes part in no transaction. */
  async endTransaction(): Promise<void> {}

  async settle(ends: readonly GuardEnd[], tx?: unknown): Promise<readonly boolean[]> {
    if (tx !== undefined) throw unsupported()
    return ends.map((ref) => {
      const row = this.#claimed(ref)
      if (!row) return false
      if (ref.end === 'released') return this.#rows.delete(nameOf(ref))
      const result = ref.end === 'done' ? ref.result : null
      this.#put({ ...row, status: ref.end, result, endsAt: this.#now() + row.keepMs })
      return true
    })
  }

  async renew(ref: GuardRef, leaseMs: number, tx?: unknown): Promise<number | undefined> {
    if (tx !== undefined) throw unsupported()
    const row = this.#claimed(ref)
    if (!row) return undefined
    const endsAt = Math.max(row.endsAt, this.#now() + leaseMs)
    this.#put({ ...row, endsAt })
    return endsAt
  }

  async forget(space: string, key: string): Promise<boolean> {
    const wasThere = this.#present({ space, key }) !== undefined
    this.#rows.delete(nameOf({ space, key }))
    return wasThere
  }

  async seen(asks: readonly WindowAsk[], tx?: unknown): Promise<readonly boolean[]> {
    if (tx !== undefined) throw unsupported()
    return asks.map(({ window, value, windowMs }) => {
      const now = this.#now()
      const open = this.#windows.get(window)
      if (open && open.endsAt > now && open.value === value) return true
      this.#windows.set(window, { value, endsAt: now + windowMs })
      return false
    })
  }

  async list({ space, search = '', limit, cursor }: GuardQuery): ReturnType<GuardStore['list']> {
    const found = [...this.#rows.values()]
      .filter((row) => row.space === space && row.key.includes(search))
      .filter(({ key }) => cursor === undefined || compareBytes(key, decodeCursor(cursor)) > 0)
      .flatMap((row) => this.#present(row) ?? [])
      .sort((a, b) => compareBytes(a.key, b.key))
    const items = found.slice(0, limit).map(recordOf)
    return { items, cursor: found.length > limit ? encodeCursor(items.at(-1)!.key) : null }
  }

  async prune(limit: number): Promise<number> {
    const now = this.#now()
    const rows = [...this.#rows].filter(([, row]) => !this.#present(row)).slice(0, limit)
    for (const [name] of rows) this.#rows.delete(name)
    const windows = [...this.#windows].filter(([, { endsAt }]) => endsAt <= now).slice(0, limit - rows.length)
    for (const [name] of windows) this.#windows.delete(name)
    return rows.length + windows.length
  }

  /** The present status of a key; undefined: the key is unknown or forgotten. */
  #present(ref: { readonly space: string; readonly key: string }): Present | undefined {
    const row = this.#rows.get(nameOf(ref))
    if (!row) return undefined
    const now = this.#now()
    if (row.status !== 'running') return row.endsAt > now ? { ...row, standing: row.status } : undefined
    if (row.endsAt > now) return { ...row, standing: 'running' }
    if (row.mode === 'at-most-once') return { ...row, standing: 'stuck' }
    // An expired claim failed at the end of its lease, and is kept as long as a reported failure.
    const endsAt = row.endsAt + row.keepMs
    return endsAt > now ? { ...row, standing: 'failed', endsAt } : undefined
  }

  #claimed(ref: GuardRef): Row | undefined {
    const row = this.#present(ref)
    const isClaimed = row?.standing === 'running' || row?.standing === 'stuck'
    return isClaimed && row.token === ref.token ? this.#rows.get(nameOf(ref)) : undefined
  }

  #put(row: Row): void {
    this.#rows.set(nameOf(row), row)
  }

  #mintToken(now: number): string {
    this.#lastNo = Math.max(this.#lastNo + 1, now * 1_000)
    return encodeToken({ leaseNo: String(this.#lastNo), nonce: createNonce() })
  }
}

function recordOf({ key, standing, mode, attempt, claimedAt, endsAt }: Present): GuardRecord {
  return { key, status: standing, mode, attempt, claimedAt, endsAt: standing === 'stuck' ? null : endsAt }
}

function nameOf({ space, key }: { readonly space: string; readonly key: string }): string {
  return JSON.stringify([space, key])
}

function encodeCursor(key: string): string {
  return Buffer.from(key).toString('base64url')
}

function decodeCursor(cursor: string): string {
  return Buffer.from(cursor, 'base64url').toString()
}
