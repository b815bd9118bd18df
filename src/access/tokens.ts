import type { Duration } from '../core/duration.ts'
import { invalidArgument, SignalboxError } from '../core/errors.ts'
import { createId } from '../core/ids.ts'
import { duration, oneOf, onlyKeys, show, text, whole } from '../core/options.ts'
import { createSecret, isSecret, type PresentedSecret, presentSecret, sameDigest } from './secret.ts'
import { type Scope, scopes, type Token, type TokenRecord, type TokenStore } from './token-store.ts'

/** Makes, lists, ends and recognises tokens. */
export interface Tokens {
  /** The secret is in this answer and nowhere else, ever. */
  create(options: CreateTokenOptions): Promise<TokenWithSecret>
  find(id: string): Promise<ListedToken | undefined>
  /** Oldest first, also those that ended. */
  list(options?: ListTokensOptions): Promise<TokenPage>
  /** Ends it from now on; ending it again changes nothing. Throws `not_found`. */
  revoke(id: string): Promise<Token>
  /** The live token that this is the secret of. Takes in any text. */
  verify(secret: string): Promise<Token | undefined>
}

export interface CreateTokenOptions {
  /** A name for people. */
  readonly name: string
  readonly scope: Scope
  /** Up to 100 ids of nodes: it may connect as these, and do nothing else. Its scope must be `work`. @default not bound */
  readonly nodes?: readonly string[] | null | undefined
  /** The namespace it speaks for; `*` is every one. */
  readonly namespace: string
  /** How long it counts: milliseconds, or text such as '30d'. @default for ever */
  readonly expiresInMs?: Duration | null | undefined
}

export interface TokenWithSecret extends Token {
  readonly secret: string
}

export interface ListTokensOptions {
  /** @default all */
  readonly namespace?: string | undefined
  /** @default 50 */
  readonly limit?: number | undefined
  /** Where the page before ended. */
  readonly cursor?: string | undefined
}

export interface TokenPage {
  readonly items: readonly ListedToken[]
  readonly cursor: string | null
}

/** A token, and whether it counts now by the store's clock. */
export interface ListedToken extends Token {
  readonly live: boolean
}

/** What became of a token; `unknown` when the store failed, so that it may or may not have been written. */
export type TokenChange = 'created' | 'revoked' | 'unknown'

/** What tokens are made of. */
export interface TokensParts {
  readonly store: TokenStore
  /** Called whenever a token was made or revoked here, also when that is not certain. Must not throw. */
  readonly onChange?: (id: string, change: TokenChange) => void
}

const maxSpanMs = 3_155_760_000_000
const maxNodes = 100

/** Makes the service of tokens over a store. */
export function createTokens({ store, onChange = () => {} }: TokensParts): Tokens {
  return {
    async create(options) {
      onlyKeys('token', options, ['name', 'scope', 'nodes', 'namespace', 'expiresInMs'])
      const { expiresInMs } = options
      const id = createId()
      const secret = createSecret(id)
      const scope = oneOf('token.scope', options.scope, scopes)
      const token = {
        id,
        name: text('token.name', options.name),
        scope,
        nodes: checkNodes(options.nodes ?? null, scope),
        namespace: text('token.namespace', options.namespace),
        digest: presentSecret(secret).digest,
        expiresInMs:
          expiresInMs === undefined || expiresInMs === null
            ? null
            : duration('token.expiresInMs', expiresInMs, { min: 1, max: maxSpanMs }),
      }
      let change: TokenChange = 'unknown'
      try {
        const record = await store.create(token)
        change = 'created'
        return { ...tokenOf(record), secret }
      } finally {
        onChange(id, change)
      }
    },

    async find(id) {
      const [record] = await store.find([id])
      return record && listed(record)
    },

    async list({ namespace, limit = 50, cursor } = {}) {
      whole('tokens.limit', limit, { min: 1, max: 500 })
      // One more than asked for shows whether there is a next page.
      const records = await store.list({
        limit: limit + 1,
        ...(namespace !== undefined && { namespace }),
        ...(cursor !== undefined && { after: cursor }),
      })
      const items = records.slice(0, limit).map(listed)
      return { items, cursor: records.length > limit ? items.at(-1)!.id : null }
    },

    async revoke(id) {
      let change: TokenChange = 'unknown'
      try {
        const record = await store.revoke(id)
        if (!record) throw noSuchToken(id)
        change = 'revoked'
        return tokenOf(record)
      } finally {
        onChange(id, change)
      }
    },

    async verify(secret) {
      const presented = presentSecret(secret)
      const [record] = presented.id === undefined ? [] : await store.find([presented.id])
      return judgePresented(presented, record)
    },
  }
}

/** Sorted and each once: what was said in another order is the same token. */
function checkNodes(nodes: readonly string[] | null, scope: Scope): readonly string[] | null {
  if (nodes === null) return null
  if (!Array.isArray(nodes) || nodes.length === 0 || nodes.length > maxNodes) throw notNodes(nodes)
  const ids = [...new Set(nodes.map((id, index) => text(`token.nodes[${index}]`, id)))]
  if (scope === 'work') return ids.sort()
  throw invalidArgument(
    `A token for nodes has the scope "work", not "${scope}": it connects as a node and does nothing else.`,
    'token.scope',
  )
}

function notNodes(value: unknown): SignalboxError {
  return invalidArgument(
    `token.nodes must be a list of 1 to ${maxNodes} ids of nodes, not ${show(value)}.`,
    'token.nodes',
  )
}

const noDigest = '0'.repeat(64)

/** The live token of a secret. An unknown id costs the same comparison as a known one. */
export function judgePresented(
  presented: PresentedSecret,
  record: TokenRecord | undefined,
): Token | undefined {
  const same = sameDigest(presented.digest, record?.digest ?? noDigest)
  return same && record?.live ? tokenOf(record) : undefined
}

/** The error for a token that is not there; a secret given instead of an id is not repeated. */
function noSuchToken(id: string): SignalboxError {
  const named = isSecret(id) ? 'with a secret for its id' : show(id)
  return new SignalboxError('not_found', `There is no token ${named}. List them to see their ids.`)
}

function listed(record: TokenRecord): ListedToken {
  return { ...tokenOf(record), live: record.live }
}

/** The record without its digest, field by field: what a store adds one day is not shown by accident. */
export function tokenOf(record: Token): Token {
  const { id, name, scope, nodes, namespace, createdAt, expiresAt, revokedAt } = record
  return { id, name, scope, nodes, namespace, createdAt, expiresAt, revokedAt }
}
