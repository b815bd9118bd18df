import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { describeError } from '../../core/failure.ts'
import { digestParts } from '../../once/index.ts'
import type { Channel } from '../channels/channel.ts'
import { secretFieldsOf } from '../channels/index.ts'
import type { SubscriptionRecord } from '../store.ts'
import type { SecretKeys } from './secret-keys.ts'

/**
 * How the channel of a subscription is kept in the store. Without a key it is the JSON that the subscriber gave. With a
 * key its secret fields are sealed:
 *
 *     {"type":"dingtalk","format":"text","$sealed":{"key":"a1b2c3d4","channel":"5f1c…","shown":"dingtalk oapi.dingtalk.com #5f1c02","data":"AQg1…"}}
 *
 * `key` is the id of the key that opens it. `channel` and `shown` are what a process without the key needs: which wait queue its notifications go to, and how the
 * channel is shown. The seal is bound to namespace, subscription and type.
 */
export interface KeptChannel {
  /** `unreadable`: sealed, and not opened here; `problem` says why. */
  readonly secrets: 'plain' | 'sealed' | 'unreadable'
  readonly type: string
  /** Undefined: it cannot be used here; `problem` says why. */
  readonly channel: Channel | undefined
  /** `invalid_argument` (refused by now), `secret_sealed` (the key is missing here) or `seal_broken`. */
  readonly problem: SignalboxError | undefined
  /** Which wait queue its notifications go to. */
  readonly key: string
  /** As people may see it. */
  readonly shown: string
  /** All of it in plain, canonical: equal texts are equal channels. Undefined: unreadable. */
  readonly plain: string | undefined
}

type Kept = Pick<SubscriptionRecord, 'id' | 'name' | 'channel'>
type Fields = Readonly<Record<string, unknown>>

interface Seal {
  readonly key: string
  readonly channel: string
  readonly shown: string
  readonly data: string
}

export interface ChannelKeeperParts {
  readonly namespace: string
  /** Undefined: secrets are kept in plain. */
  readonly keys: SecretKeys | undefined
  readonly parse: (config: unknown) => Channel
}

export class ChannelKeeper {
  readonly #namespace: string
  readonly #keys: SecretKeys | undefined
  readonly #parse: (config: unknown) => Channel

  constructor({ namespace, keys, parse }: ChannelKeeperParts) {
    this.#namespace = namespace
    this.#keys = keys
    this.#parse = parse
  }

  get hasKey(): boolean {
    return this.#keys !== undefined
  }

  /** The text to store for a subscription's channel, which is JSON in plain. */
  keep(id: string, plain: string): string {
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

  /** Never throws: what is wrong is in `problem`. */
  read(record: Kept): KeptChannel {
    const { $sealed, ...open } = decode(record.channel)
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

  /** Whether it is sealed with the key that seals now. */
  isCurrent({ channel }: Pick<Kept, 'channel'>): boolean {
    const { $sealed } = decode(channel)
    return $sealed !== undefined && $sealed.key === this.#keys?.currentId
  }

  #boundTo(id: string, type: string): string {
    return JSON.stringify(['monitor.channel', this.#namespace, id, type])
  }

  #understand(id: string, fields: Fields): Omit<KeptChannel, 'secrets'> {
    const type = typeOf(fields)
    const plain = JSON.stringify(Object.fromEntries(Object.entries(fields).sort(byName)))
    try {
      const channel = this.#parse(fields)
      return { type, channel, problem: undefined, key: channel.key, shown: channel.shown, plain }
    } catch (error) {
      // Its notifications have a wait queue of their own, in which the sender says so.
      const key = digestParts(['channel.refused.1', id])
      const problem = isSignalboxError(error)
        ? error
        : new SignalboxError('invalid_argument', describeError(error).message)
      return { type, channel: undefined, problem, key, shown: 'refused', plain }
    }
  }
}

/** A text that is no JSON becomes a channel without a type. The parser's own message would quote the text. */
function decode(channel: string): Fields & { readonly $sealed?: Seal } {
  try {
    return JSON.parse(channel)
  } catch {
    return {}
  }
}

function typeOf({ type }: Fields): string {
  return typeof type === 'string' ? type : ''
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1
}

function missingKey({ id, name }: Kept, keyId: string): SignalboxError {
  return new SignalboxError(
    'secret_sealed',
    `The channel of the subscription "${name}" (${id}) is sealed with the key ${keyId}, which is not here. ` +
      'Its notifications wait. Set SIGNALBOX_SECRET_KEY (or open.secretKey) to that key, or subscribe again.',
    { details: { subscriptionId: id, subscription: name, keyId } },
  )
}

function broken({ id, name }: Kept): SignalboxError {
  return new SignalboxError(
    'seal_broken',
    `The sealed channel of the subscription "${name}" (${id}) was changed, or was copied from another subscription. ` +
      'No key opens it: unsubscribe it and subscribe again.',
    { details: { subscriptionId: id, subscription: name } },
  )
}
