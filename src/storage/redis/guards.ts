import { ErrorReply } from '@redis/client'
import { Batcher } from '../../core/batcher.ts'
import { SignalboxError } from '../../core/errors.ts'
import type { GuardRecord, GuardStanding, GuardStore } from '../../once/guard-store.ts'
import { createNonce, decodeToken } from '../token.ts'
import { toStoreError } from './client.ts'
import type { Connection } from './connection.ts'
import { GuardKeys } from './keys.ts'
import { guardsScript } from './scripts/guards.ts'

/** The name of a step in the script. */
export type GuardStep = 'claim' | 'settle' | 'renew' | 'forget' | 'seen'

/** A step on one key. */
interface GuardCall {
  readonly key: string
  /** The step's name and arguments. */
  readonly args: readonly string[]
}

/** The script's answer to one step. A plain number: the key was free, and is claimed with this token number. */
type GuardReply = number | readonly (string | number | null)[]

/** Sends steps on guards. Each step has its own result. */
export type GuardSteps = Batcher<GuardCall, GuardReply>

/**
 * Steps of one turn of the event loop share a script, up to a limit. On a cluster each step has its own script, because
 * two keys may be on two nodes.
 */
export function createGuardSteps(connection: Pick<Connection, 'run'>, isClustered: boolean): GuardSteps {
  return new Batcher({
    maxItems: isClustered ? 1 : stepsAtOnce,
    maxInFlight: Number.POSITIVE_INFINITY,
    run(calls) {
      const keys = calls.map(({ key }) => key)
      const args = [serverClock, firstTime, ...calls.flatMap((call) => call.args)]
      return connection.run<readonly GuardReply[]>(guardsScript, keys, args, args.with(1, secondTime))
    },
  })
}

/** The shared parts of guards in Redis, for all namespaces. */
export interface GuardsParts {
  readonly connection: Pick<Connection, 'send'>
  readonly steps: GuardSteps
}

/** The guards of one namespace. scripts/guards.ts has the steps; this file arranges their arguments. */
export function createRedisGuards({ connection, steps }: GuardsParts, namespace: string): GuardStore {
  const names = new GuardKeys(namespace)

  async function step(key: string, name: GuardStep, ...args: readonly string[]): Promise<number> {
    return (refuseError(await steps.add({ key, args: [name, ...args] })) as readonly number[])[0]!
  }

  return {
    async claim(asks, tx) {
      if (tx !== undefined) throw refusedTransaction()
      const nonces = asks.map(createNonce)
      const replies = asks.map(({ space, key, leaseMs, keepMs, mode, fingerprint }, index) => {
        const how = mode === 'at-most-once' ? 'm' : 'l'
        const print = fingerprint === null ? '-' : `+${fingerprint}`
        const args = ['claim', nonces[index]!, `${leaseMs}`, `${keepMs}`, how, print]
        return steps.add({ key: names.guard(space, key), args })
      })
      return (await Promise.all(replies)).map((reply, index) => decodeStanding(reply, nonces[index]!))
    },

    // There is no transaction to end: Redis takes part in none.
    endTransaction: async () => undefined,

    async settle(ends, tx) {
      if (tx !== undefined) throw refusedTransaction()
      const answers = ends.map(async ({ space, key, token, end, result }) => {
        const parts = decodeToken(token)
        if (!parts) return false
        const text = end === 'done' ? (result ?? '') : ''
        const args = [parts.leaseNo, parts.nonce, endings[end], text]
        return (await step(names.guard(space, key), 'settle', ...args)) === 1
      })
      return Promise.all(answers)
    },

    async renew({ space, key, token }, leaseMs, tx) {
      if (tx !== undefined) throw refusedTransaction()
      const parts = decodeToken(token)
      if (!parts) return undefined
      const args = [parts.leaseNo, parts.nonce, `${leaseMs}`]
      const endsAt = await step(names.guard(space, key), 'renew', ...args)
      return endsAt === 0 ? undefined : endsAt
    },

    async forget(space, key) {
      return (await step(names.guard(space, key), 'forget')) === 1
    },

    async seen(asks, tx) {
      if (tx !== undefined) throw refusedTransaction()
      const answers = asks.map(async ({ window, value, windowMs }) => {
        return (await step(names.window(window), 'seen', value, createNonce(), `${windowMs}`)) === 1
      })
      return Promise.all(answers)
    },

    async list({ space, search = '', limit, cursor }) {
      const items: GuardRecord[] = []
      let { scan, skip } = cursor === undefined ? { scan: '0', skip: 0 } : decodeCursor(cursor)
      for (let round = 0; round < scanRounds; round++) {
        const args = ['SCAN', scan, 'MATCH', names.pattern(space), 'COUNT', `${scanCount}`]
        const [next, found] = await connection.send<[string, string[]]>(args, args)
        // Sorted, so that a page may end within one scan result: a later scan of the same cursor has the same order.
        const keys = found.toSorted().slice(skip)
        const rows = await Promise.all(
          keys.map((key) => connection.send<string | null>(['GET', key], ['GET', key])),
        )
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

    // Redis deletes expired keys itself.
    prune: async () => 0,
  }
}

/** The number of keys that one page scans. Keys have no order, and guards have no index. */
const scanRounds = 50
const scanCount = 500

const endings = { done: 'd', failed: 'f', released: 'x' } as const

/** A longer script would delay other callers, because Redis runs one script at a time. */
const stepsAtOnce = 50

const serverClock = ''
const firstTime = '0'
const secondTime = '1'

function refuseError(reply: GuardReply): GuardReply {
  if (typeof reply === 'number' || reply[0] !== 'error') return reply
  throw toStoreError(new ErrorReply(String(reply[1])))
}

function decodeStanding(reply: GuardReply, nonce: string): GuardStanding {
  // The key was free, and this call claimed it.
  if (typeof reply === 'number') return { status: 'run', token: `${reply}.${nonce}`, attempt: 1 }
  const [status, first, second] = refuseError(reply) as readonly (string | number | null)[]
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

/** A guard for people. Undefined: the guard has expired. */
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
