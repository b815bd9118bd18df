import { SignalboxError } from '../../core/errors.ts'
import type { GuardRecord, GuardStanding, GuardStore } from '../../once/guard-store.ts'
import { createNonce, decodeToken } from '../token.ts'
import type { Connection } from './connection.ts'
import { GuardCall, type GuardCalls, type GuardReply, type GuardStep } from './guard-calls.ts'
import { GuardKeys } from './guard-keys.ts'

/** What guards in Redis are made of; one set for all namespaces. */
export interface GuardsParts {
  readonly connection: Pick<Connection, 'send'>
  readonly calls: GuardCalls
}

/** The guards of one namespace. Every step is one in scripts/guards.ts; here its arguments are put in order. */
export function createRedisGuards({ connection, calls }: GuardsParts, namespace: string): GuardStore {
  const names = new GuardKeys(namespace)

  function step(key: string, name: GuardStep, args: readonly string[]): Promise<number> {
    const call = new GuardCall(([reply]) => (reply as readonly number[])[0]!)
    calls.step(call, key, name, args)
    return call.answer
  }

  return {
    // Not an async function: there is a claim for every event, and each promise on its way costs as much as the rest.
    claim(asks, tx) {
      if (tx !== undefined) return Promise.reject(refusedTransaction())
      if (asks.length === 0) return Promise.resolve([])
      const nonces = asks.map(createNonce)
      const call = new GuardCall((replies) =>
        replies.map((reply, index) => decodeStanding(reply, nonces[index]!)),
      )
      for (const [index, ask] of asks.entries())
        calls.claim(call, names.guard(ask.space, ask.key), nonces[index]!, ask)
      return call.answer
    },

    // There is none to end: Redis takes part in no transaction.
    endTransaction: async () => undefined,

    async settle(ends, tx) {
      if (tx !== undefined) throw refusedTransaction()
      const answers = ends.map(({ space, key, token, end, result }) => {
        const parts = decodeToken(token)
        if (!parts) return Promise.resolve(0)
        const text = end === 'done' ? (result ?? '') : ''
        return step(names.guard(space, key), 'settle', [parts.leaseNo, parts.nonce, endings[end], text])
      })
      return (await all(answers)).map((took) => took === 1)
    },

    async renew({ space, key, token }, leaseMs, tx) {
      if (tx !== undefined) throw refusedTransaction()
      const parts = decodeToken(token)
      if (!parts) return undefined
      const endsAt = await step(names.guard(space, key), 'renew', [parts.leaseNo, parts.nonce, `${leaseMs}`])
      return endsAt === 0 ? undefined : endsAt
    },

    async forget(space, key) {
      return (await step(names.guard(space, key), 'forget', [])) === 1
    },

    async seen(asks, tx) {
      if (tx !== undefined) throw refusedTransaction()
      const answers = asks.map(({ window, value, windowMs }) =>
        step(names.window(window), 'seen', [value, createNonce(), `${windowMs}`]),
      )
      return (await all(answers)).map((seen) => seen === 1)
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

/** How many keys one page scans; keys have no order, and guards have no index. */
const scanRounds = 50
const scanCount = 500

const endings = { done: 'd', failed: 'f', released: 'x' } as const

/** Waits for all of them, even after one failed, so that no promise is left without a handler. */
async function all<Value>(promises: readonly Promise<Value>[]): Promise<readonly Value[]> {
  const results = await Promise.allSettled(promises)
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason
    return result.value
  })
}

function decodeStanding(reply: GuardReply, nonce: string): GuardStanding {
  // It was free, and is ours.
  if (typeof reply === 'number') return { status: 'run', token: `${reply}.${nonce}`, attempt: 1 }
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

function refusedTransaction(): SignalboxError {
  return new SignalboxError(
    'transaction_unsupported',
    "These guards are in Redis, which cannot commit with your data. Open the box with guards: 'sql', or leave tx out.",
  )
}
