import { hash } from 'node:crypto'
import { describeError } from '../core/describe-error.ts'
import { invalidArgument, isSignalboxError, SignalboxError } from '../core/errors.ts'
import { parseJson } from '../core/json.ts'
import { parseSecretKeys } from '../core/secret-keys.ts'
import { createAesSealer, type SealContext, type Sealer } from '../jobs/index.ts'
import { digestParts } from '../once/index.ts'
import type { Channel } from './channels/channel.ts'
import { secretFieldsOf } from './channels/index.ts'
import type { UnreadableChannel } from './monitor-reads.ts'
import type { MonitorStore, SubscriptionRecord } from './monitor-store.ts'

/**
 * How the channel of a subscription is stored. Without a key it is the JSON that the subscriber gave. With a key its
 * secret fields are sealed:
 *
 *     {"type":"dingtalk","format":"text","$sealed":{"key":"a1b2c3d4","channel":"5f1c…","shown":"dingtalk oapi.dingtalk.com #5f1c02","data":"AQg1…"}}
 *
 * `key` is the id of the key that opens it. `channel` and `shown` are for processes without the key: `channel` is a
 * digest of the address, by which notifications share one queue; `shown` is the text for operators. The seal is bound
 * to namespace, subscription and type.
 */
export interface StoredChannel {
  /** `unreadable`: sealed, and this process could not open it; `problem` has the reason. */
  readonly secrets: 'plain' | 'sealed' | 'unreadable'
  readonly type: string
  /** Undefined: this process cannot use it; `problem` has the reason. */
  readonly channel: Channel | undefined
  /** `invalid_argument` (the rules refuse it now), `secret_sealed` (this process lacks the key) or `seal_broken`. */
  readonly problem: SignalboxError | undefined
  /** A digest of the address: notifications with the same key share one queue and the provider's limits. */
  readonly key: string
  /** The text for operators, without secrets. */
  readonly shown: string
  /** The whole channel as JSON with sorted fields: equal texts are equal channels. Undefined: unreadable. */
  readonly plain: string | undefined
}

type Stored = Pick<SubscriptionRecord, 'id' | 'name' | 'channel'>
type Fields = Readonly<Record<string, unknown>>

interface Seal {
  readonly key: string
  readonly channel: string
  readonly shown: string
  readonly data: string
}

export interface StoredChannelsParts {
  readonly namespace: string
  /** Undefined: secrets are stored in plain text. */
  readonly keys: SecretKeys | undefined
  readonly parse: (config: unknown) => Channel
}

export class StoredChannels {
  readonly #namespace: string
  readonly #keys: SecretKeys | undefined
  readonly #parse: (config: unknown) => Channel

  constructor({ namespace, keys, parse }: StoredChannelsParts) {
    this.#namespace = namespace
    this.#keys = keys
    this.#parse = parse
  }

  get hasKey(): boolean {
    return this.#keys !== undefined
  }

  /** The text to store for a subscription's channel; `plain` is its JSON. */
  encode(id: string, plain: string): string {
    if (this.#keys === undefined) return plain
    const fields: Fields = JSON.parse(plain)
    const type = typeOf(fields)
    const { key, shown } = this.#understand(id, fields)
    const secretFields = secretFieldsOf(type) ?? Object.keys(fields).filter((field) => field !== 'type')
    const isSecret = ([field]: readonly [string, unknown]) => secretFields.includes(field)
    const entries = Object.entries(fields)
    const secrets = JSON.stringify(Object.fromEntries(entries.filter(isSecret)))
    const data = this.#keys.seal(secrets, this.#boundTo(id, type))
    const seal: Seal = { key: this.#keys.currentId, channel: key, shown, data }
    const open = Object.fromEntries(entries.filter((entry) => !isSecret(entry)))
    return JSON.stringify({ ...open, $sealed: seal })
  }

  /** Never throws: `problem` has the error. */
  decode(record: Stored): StoredChannel {
    const { $sealed, ...open } = parseStored(record.channel)
    if ($sealed === undefined) return { secrets: 'plain', ...this.#understand(record.id, open) }
    const type = typeOf(open)
    const opened = this.#keys?.open($sealed.data, this.#boundTo(record.id, type))
    if (opened?.status === 'opened')
      return { secrets: 'sealed', ...this.#understand(record.id, { ...open, ...JSON.parse(opened.text) }) }
    return {
      ...{ secrets: 'unreadable', type, channel: undefined, plain: undefined },
      problem: opened?.status === 'broken' ? broken(record) : missingKey(record, $sealed.key),
      key: $sealed.channel,
      shown: $sealed.shown,
    }
  }

  /** Whether the channel is sealed with the first key. */
  isCurrent({ channel }: Pick<Stored, 'channel'>): boolean {
    const { $sealed } = parseStored(channel)
    return $sealed !== undefined && $sealed.key === this.#keys?.currentId
  }

  #boundTo(id: string, type: string): string {
    return JSON.stringify(['monitor.channel', this.#namespace, id, type])
  }

  #understand(id: string, fields: Fields): Omit<StoredChannel, 'secrets'> {
    const type = typeOf(fields)
    const plain = JSON.stringify(Object.fromEntries(Object.entries(fields).sort(byName)))
    try {
      const channel = this.#parse(fields)
      return { type, channel, problem: undefined, key: channel.key, shown: channel.shown, plain }
    } catch (error) {
      // A separate key: the sender takes its notifications apart from others, and reports the problem.
      const key = digestParts(['channel.refused.1', id])
      const problem = isSignalboxError(error) ? error : invalidArgument(describeError(error).message)
      return { type, channel: undefined, problem, key, shown: 'refused', plain }
    }
  }
}

/** Text that is not JSON becomes a channel without a type. An error would quote the text, which may have secrets. */
function parseStored(channel: string): Fields & { readonly $sealed?: Seal } {
  return parseJson(channel, {}) as Fields
}

function typeOf({ type }: Fields): string {
  return typeof type === 'string' ? type : ''
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1
}

function missingKey({ id, name }: Stored, keyId: string): SignalboxError {
  return new SignalboxError(
    'secret_sealed',
    `The channel of the subscription "${name}" (${id}) is sealed with the key ${keyId}, which this process does not have. ` +
      'Its notifications wait. Set SIGNALBOX_SECRET_KEY (or open.secretKey) to that key, or subscribe again.',
    { details: { subscriptionId: id, subscription: name, keyId } },
  )
}

function broken({ id, name }: Stored): SignalboxError {
  return new SignalboxError(
    'seal_broken',
    `The sealed channel of the subscription "${name}" (${id}) was changed, or was copied from another subscription. ` +
      'No key opens it: unsubscribe it and subscribe again.',
    { details: { subscriptionId: id, subscription: name } },
  )
}

/** The result of `reseal` for the channels of a namespace. */
export interface ResealAnswer {
  /** Channels that are now sealed with the first key: they were in plain text, or sealed with another key. */
  readonly resealed: number
  /** Channels that were sealed with the first key before. */
  readonly current: number
  /** Channels that no key of this process opens; they did not change. */
  readonly unreadable: readonly UnreadableChannel[]
}

/** The rounds of a reseal: a subscription that is replaced meanwhile is read again. */
const maxRounds = 5

/** Seals every channel with the first key. Running it twice, or in two processes, does no harm. */
export async function resealChannels(store: MonitorStore, channels: StoredChannels): Promise<ResealAnswer> {
  if (!channels.hasKey) {
    throw invalidArgument(
      'There is no key to seal with. Set SIGNALBOX_SECRET_KEY or SIGNALBOX_SECRET_KEY_FILE, or give `secretKey` to open.',
      'secretKey',
    )
  }
  const resealed = new Set<string>()
  for (let round = 1; ; round++) {
    const { subscriptions } = await store.rules()
    const unreadable: UnreadableChannel[] = []
    let overtaken = 0
    let current = 0
    for (const record of subscriptions) {
      const { plain, problem } = channels.decode(record)
      const { id, name, channel } = record
      if (plain === undefined) {
        const { code, message } = problem!
        unreadable.push({ subscriptionId: id, subscription: name, code, message })
      } else if (channels.isCurrent(record)) current += resealed.has(id) ? 0 : 1
      else if (await store.rewriteChannel(id, channel, channels.encode(id, plain))) resealed.add(id)
      else overtaken++
    }
    if (overtaken === 0) return { resealed: resealed.size, current, unreadable }
    if (round === maxRounds)
      throw new SignalboxError(
        'conflict',
        `${overtaken} subscriptions changed while they were resealed. Run it again.`,
      )
  }
}

/**
 * The keys that seal secrets in the store, with the AES sealer of payloads. The first key seals; every key opens. The
 * id of a key is the beginning of its digest, which reveals nothing about the key. Printing this object, in a log or as
 * JSON, shows no key.
 */
export class SecretKeys {
  readonly #sealer: Sealer
  /** The id of the key that seals. */
  readonly currentId: string

  /** Throws `invalid_argument`; `name` names the source of the keys in messages. */
  constructor(name: string, given: string | readonly string[]) {
    const keys = parseSecretKeys(name, given).map((key) => [idOf(key), key] as const)
    this.currentId = keys[0]![0]
    this.#sealer = createAesSealer({ keys: Object.fromEntries(keys), current: this.currentId })
  }

  /** Returns base64. `owner` is not stored: the text opens only for the same owner. */
  seal(text: string, owner: string): string {
    // The AES sealer never returns a promise.
    const sealed = this.#sealer.seal(Buffer.from(text), contextOf(owner)) as Uint8Array
    return Buffer.from(sealed).toString('base64')
  }

  open(sealed: string, owner: string): OpenedSecret {
    try {
      const plain = this.#sealer.open(Buffer.from(sealed, 'base64'), contextOf(owner)) as Uint8Array
      return { status: 'opened', text: Buffer.from(plain).toString() }
    } catch (error) {
      return { status: isSignalboxError(error, 'seal_broken') ? 'broken' : 'unknown_key' }
    }
  }

  toJSON(): string {
    return '(set)'
  }
}

export type OpenedSecret =
  | { readonly status: 'opened'; readonly text: string }
  /** `unknown_key`: another key opens it. `broken`: it was changed, or it belongs to another owner. */
  | { readonly status: 'unknown_key' | 'broken' }

/** The sealer binds data to jobs. For a secret, the owner replaces the job's id. */
function contextOf(owner: string): SealContext {
  return { part: 'payload', queue: 'signalbox.secret', kind: 'signalbox.secret', jobId: owner }
}

function idOf(key: Uint8Array): string {
  return hash('sha256', Buffer.concat([Buffer.from('signalbox.secret.key.1 '), key])).slice(0, 8)
}
