import { SignalboxError } from '../../core/errors.ts'
import type { GuardRecord, GuardStanding, GuardStore } from '../../once/store.ts'
import { createNonce, decodeToken } from '../token.ts'
import type { Connection } from './connection.ts'
import type { GuardCalls, GuardReply } from './guardcalls.ts'
import { GuardKeys } from './guardkeys.ts'

/** What guards in Redis are made of; one set for all namespaces. */
export interface GuardsParts {
  readonly connection: Pick<Connection, 'send'>
  readonly calls: GuardCalls
}

/** The guards of one namespace. Every step is one in scripts/guards.ts; here its arguments are put in order. */
export function createRedisGuards({ connection, calls }: GuardsParts, namespace: string): GuardStore {
  const names = new GuardKeys(namespace)

  return {
    async claim(asks, tx) {
      refuseTransaction(tx)
      const nonces = asks.map(createNonce)
      const replies = asks.map(({ space, key, leaseMs, keepMs, mode, fingerprint }, index) => {
        const how = mode === 'at-most-once' ? 'm' : 'l'
        const print = fingerprint === null ? '-' : `+${fingerprint}`
        const args = [nonces[index]!, `${leaseMs}`, `${keepMs}`, how, print]
        return calls.step(names.guard(space, key), 'claim', args)
      })
      return (await all(replies)).map((reply, index) => decodeStanding(reply, nonces[index]!))
    },

    async settle(ends, tx) {
      refuseTransaction(tx)
      const replies = ends.map(({ space, key, token, end, result }) => {
        const parts = decodeToken(token)
        if (!parts) return Promise.resolve<GuardReply>([0])
        const text = end === 'done' ? (result ?? '') : ''
        return calls.step(names.guard(space, key), 'settle', [parts.leaseNo, parts.nonce, endings[end], text])
      })
      return (await all(replies)).map(([took]) => took === 1)
    },

    async renew({ space, key, token }, leaseMs, tx) {
      refuseTransaction(tx)
      const parts = decodeToken(token)
      if (!parts) return undefined
      const args = [parts.leaseNo, parts.nonce, `${leaseMs}`]
      const [endsAt] = await calls.step(names.guard(space, key), 'renew', args)
      return endsAt === 0 ? undefined : Number(endsAt)
    },

    async forget(space, key) {
      const [wasThere] = await calls.step(names.guard(space, key), 'forget', [])
      return wasThere === 1
    },

    async seen(asks, tx) {
      refuseTransaction(tx)
      const replies = asks.map(({ window, value, windowMs }) =>
        calls.step(names.window(window), 'seen', [value, createNonce(), `${windowMs}`]),
      )
      return (await all(replies)).map(([seen]) => seen === 1)
    },

    async list({ space, search = '', limit, cursor }) {
      const items: GuardRecord[] = []
      let { scan, skip } = cursor === undefined ? { scan: '0', skip: 0 } : decodeCursor(cursor)
      for (let round = 0; round < scanRounds; round++) {
        const words = ['SCAN', scan, 'MATCH', names.pattern(space), 'COUNT', `${scanCount}`]
        const [next, found] = await connection.send<[string, string[]]>(words, words)
        // The same order each time the same place is looked at, so that a page may end in the middle of it.
        const keys = found.toSorted().slice(skip)
        const rows = await all(keys.map((key) => connection.send<string | null>(['GET', key], ['GET', key])))
        const now = await readClock(connection)
        for (const [index, row] of rows.entries()) {
          if (items.length === limit) return { items, cursor: encodeCursor(scan, skip + index) }
          const record = row === null ? undefined : decodeRow(names.keyOf(keys[index]!), row, now)
          if (record?.key.includes(search)) items.push(record)
        }
        if (next === '0') return { items, cursor: null }
        scan = next
        skip = 0
        if (items.length === limit) break
      }
      return { items, cursor: encodeCursor(scan, 0) }
    },

    // Redis forgets by itself.
    prune: async () => 0,
  }
}

/** How much of all keys one page looks at; there is no order in them, and no list of guards beside them. */
const scanRounds = 50
const scanCount = 500

const endings = { done: 'd', failed: 'f', released: 'x' } as const

/** Waits for all of them, also where one failed: nothing is left behind that nobody listens to. */
async function all<Value>(promises: readonly Promise<Value>[]): Promise<readonly Value[]> {
  const results = await Promise.allSettled(promises)
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason
    return result.value
  })
}

function decodeStanding(reply: GuardReply, nonce: string): GuardStanding {
  // The number alone: it was free, and is ours.
  if (typeof reply === 'string') return { status: 'run', token: `${reply}.${nonce}`, attempt: 1 }
  const [status, first, second] = reply
  switch (status) {
    case 'run':
      return { status, token: String(first), attempt: Number(second) }
    case 'running':
      return { status, leaseEndsInMs: Number(first) }
    case 'done':
      return { status, result: first === '' ? null : String(first) }
    default:
      return { status: status as 'stuck' | 'mismatch' }
  }
}

/** A guard as people see it; undefined when nothing is known of it any more. */
function decodeRow(key: string, row: string, now: number): GuardRecord | undefined {
  const [kind = '', attempt, , , claimedAt, keepMs, ends] = row.split('\x1f')
  const mode = kind[1] === 'm' ? 'at-most-once' : 'at-least-once'
  const same = { key, mode, attempt: Number(attempt), claimedAt: Number(claimedAt) } as const
  const endsAt = Number(ends)
  if (kind[0] !== 'r')
    return endsAt > now ? { ...same, status: kind[0] === 'd' ? 'done' : 'failed', endsAt } : undefined
  if (endsAt > now) return { ...same, status: 'running', endsAt }
  if (mode === 'at-most-once') return { ...same, status: 'stuck', endsAt: null }
  const keptUntil = endsAt + Number(keepMs)
  return keptUntil > now ? { ...same, status: 'failed', endsAt: keptUntil } : undefined
}

async function readClock(connection: GuardsParts['connection']): Promise<number> {
  const [seconds, micros] = await connection.send<[string, string]>(['TIME'], ['TIME'])
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000)
}

function encodeCursor(scan: string, skip: number): string {
  return Buffer.from(`${scan}.${skip}`).toString('base64url')
}

function decodeCursor(cursor: string): { readonly scan: string; readonly skip: number } {
  const [, scan, skip] = /^(\d{1,20})\.(\d{1,9})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  if (scan !== undefined) return { scan, skip: Number(skip) }
  throw new SignalboxError('invalid_argument', 'The cursor is not one that a list of guards gave.')
}

function refuseTransaction(tx: unknown): void {
  if (tx === undefined) return
  throw new SignalboxError(
    'transaction_unsupported',
    "These guards are in Redis, which cannot commit with your data. Open the box with guards: 'sql', or leave tx out.",
  )
}
